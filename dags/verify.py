"""Airflow DAGs that hold what is published against its source: one for every database."""

from changeledger.config.database import readable_databases
from changeledger.config.files import readable_feeds
from changeledger.config.settings import Settings
from changeledger.orchestration import verify_dag, with_notifiers

settings = Settings()
feeds, _ = readable_feeds(settings.feeds)
databases, _ = readable_databases(settings.databases, feeds)
for database in with_notifiers(databases)[0].values():
    if database.is_verified(feeds):
        verify_dag(database, feeds)
