"""Airflow DAGs that compare the feeds of a database: one for every database that several feeds tell."""

from changeledger.config import Settings, load_feeds
from changeledger.databases import load_databases
from changeledger.orchestration import compare_dag

settings = Settings()
feeds = load_feeds(settings.feeds)
for database in load_databases(settings.databases, feeds).values():
    if database.is_compared(feeds):
        compare_dag(database, feeds)
