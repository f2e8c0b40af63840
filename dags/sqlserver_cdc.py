"""Airflow DAGs for SQL Server's own CDC tables: one for every feed file with `dialect: sqlserver_cdc`."""

from changeledger.config import Settings, load_feeds
from changeledger.orchestration import feed_dag

for feed in load_feeds(Settings().feeds).values():
    if feed.dialect == "sqlserver_cdc":
        feed_dag(feed)
