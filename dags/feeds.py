"""Airflow DAGs of feeds: one for every feed file, named after it."""

from changeledger.config.files import readable_feeds
from changeledger.config.settings import Settings
from changeledger.orchestration import feed_dag

feeds, _ = readable_feeds(Settings().feeds)
for feed in feeds.values():
    feed_dag(feed)
