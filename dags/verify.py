"""Airflow DAGs that hold what is published against its source: one for every database."""

from changeledger.config import Settings, load_feeds
from changeledger.databases import load_databases
from changeledger.orchestration import verify_dag

settings = Settings()
feeds = load_feeds(settings.feeds)
for database in load_databases(settings.databases, feeds).values():
    if database.verify is not None:
        verify_dag(database, feeds)
