"""Airflow DAGs for Qlik change tables: one for every feed file with `dialect: qlik_tables`."""

from changeledger.config import Settings, load_feeds
from changeledger.orchestration import feed_dag

for feed in load_feeds(Settings().feeds).values():
    if feed.dialect == "qlik_tables":
        feed_dag(feed)
