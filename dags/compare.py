"""Airflow DAGs that compare the feeds of a database: one for every database that several feeds capture."""

from changeledger.orchestration import compare_dags

compare_dags()
