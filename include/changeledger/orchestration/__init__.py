"""Airflow's side: all DAGs. Imports nothing heavy, for DAG files are parsed often."""

from changeledger.orchestration.compare_dag import compare_dag
from changeledger.orchestration.feed_dag import feed_dag
from changeledger.orchestration.job_operator import JobOperator
from changeledger.orchestration.maintain_dag import maintain_dag
from changeledger.orchestration.notifiers import with_notifiers
from changeledger.orchestration.project_dags import (
    all_dags,
    compare_dags,
    feed_dags,
    maintenance_dag,
    refuse_wrong_settings,
    verify_dags,
)
from changeledger.orchestration.stage_operator import StageOperator
from changeledger.orchestration.verify_dag import verify_dag
from changeledger.orchestration.windows import resolve_window

__all__ = [
    "JobOperator", "StageOperator", "all_dags", "compare_dag", "compare_dags", "feed_dag", "feed_dags",
    "maintain_dag", "maintenance_dag", "refuse_wrong_settings", "resolve_window", "verify_dag", "verify_dags",
    "with_notifiers",
]  # fmt: skip
