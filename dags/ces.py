"""Airflow DAGs for SQL Server's change event streaming: one for every feed file with `dialect: ces`."""

from changeledger.config.files import readable_feeds
from changeledger.config.settings import Settings
from changeledger.orchestration import feed_dag

feeds, _ = readable_feeds(Settings().feeds)
for feed in feeds.values():
    if feed.dialect == "ces":
        feed_dag(feed)
