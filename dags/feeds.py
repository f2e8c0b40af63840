"""Airflow DAGs of feeds: one for every feed file, named after it."""

from changeledger.config.files import readable_feeds
from changeledger.config.settings import Settings
from changeledger.orchestration import feed_dag, with_notifiers

feeds, _ = readable_feeds(Settings().feeds)
for feed in with_notifiers(feeds)[0].values():
    feed_dag(feed)
