"""Airflow DAGs for SQL Server's change event streaming: one for every feed file with `dialect: ces`."""

from changeledger.config import Settings, load_feeds
from changeledger.orchestration import feed_dag

for feed in load_feeds(Settings().feeds).values():
    if feed.dialect == "ces":
        feed_dag(feed)
