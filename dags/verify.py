"""Airflow DAGs that compare what is published with its source: one for every database."""

from changeledger.orchestration import verify_dags

verify_dags()
