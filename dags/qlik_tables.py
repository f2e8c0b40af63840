"""Airflow DAGs for Qlik change tables: one for every feed file with `dialect: qlik_tables`."""

from changeledger.config.files import readable_feeds
from changeledger.config.settings import Settings
from changeledger.orchestration import feed_dag

feeds, _ = readable_feeds(Settings().feeds)
for feed in feeds.values():
    if feed.dialect == "qlik_tables":
        feed_dag(feed)
