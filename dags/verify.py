"""Airflow DAGs that hold what is published against its source: one for every database."""

from changeledger.config import Settings, readable_feeds
from changeledger.databases import readable_databases
from changeledger.orchestration import verify_dag

settings = Settings()
feeds, _ = readable_feeds(settings.feeds)
databases, _ = readable_databases(settings.databases, feeds)
for database in databases.values():
    if database.is_verified(feeds):
        verify_dag(database, feeds)
