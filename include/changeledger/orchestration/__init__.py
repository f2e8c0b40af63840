"""All DAGs. This package imports nothing heavy, because Airflow parses DAG files often."""

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
