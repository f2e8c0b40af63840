"""Airflow DAGs for SQL Server's own CDC tables: one for every feed file with `dialect: sqlserver_cdc`."""

from changeledger.config.files import readable_feeds
from changeledger.config.settings import Settings
from changeledger.orchestration import feed_dag

feeds, _ = readable_feeds(Settings().feeds)
for feed in feeds.values():
    if feed.dialect == "sqlserver_cdc":
        feed_dag(feed)
