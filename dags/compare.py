"""Airflow DAGs that compare the feeds of a database: one for every database that several feeds capture."""

from changeledger.config.database import readable_databases
from changeledger.config.files import readable_feeds
from changeledger.config.settings import Settings
from changeledger.orchestration import compare_dag, with_notifiers

settings = Settings()
feeds, _ = readable_feeds(settings.feeds)
databases, _ = readable_databases(settings.databases, feeds)
for database in with_notifiers(databases)[0].values():
    if database.is_compared(feeds):
        compare_dag(database, feeds)
