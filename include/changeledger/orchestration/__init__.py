"""Airflow's side: all DAGs. Imports nothing heavy, for DAG files are parsed often."""

from changeledger.orchestration.compare_dag import compare_dag
from changeledger.orchestration.feed_dag import feed_dag
from changeledger.orchestration.job_operator import JobOperator
from changeledger.orchestration.maintain_dag import maintain_dag
from changeledger.orchestration.notifiers import with_notifiers
from changeledger.orchestration.stage_operator import StageOperator
from changeledger.orchestration.verify_dag import verify_dag
from changeledger.orchestration.windows import resolve_window

__all__ = [
    "JobOperator", "StageOperator", "compare_dag", "feed_dag", "maintain_dag", "resolve_window",
    "verify_dag", "with_notifiers",
]  # fmt: skip
