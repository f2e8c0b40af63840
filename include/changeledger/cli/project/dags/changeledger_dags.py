"""All Airflow DAGs of changeledger: one of each feed, those of databases, and the weekly maintenance."""

from changeledger.orchestration import all_dags

all_dags()
