"""Airflow's side: all DAGs. Imports nothing heavy, for DAG files are parsed often."""

from changeledger.orchestration.feed_dag import feed_dag
from changeledger.orchestration.project_dags import (
    all_dags,
    compare_dags,
    feed_dags,
    maintenance_dag,
    refuse_wrong_settings,
    verify_dags,
)

__all__ = [
    "all_dags", "compare_dags", "feed_dag", "feed_dags", "maintenance_dag", "refuse_wrong_settings",
    "verify_dags",
]  # fmt: skip
