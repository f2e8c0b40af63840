"""Airflow DAGs of feeds: one for every feed file, named after it."""

from changeledger.orchestration import feed_dags

feed_dags()
