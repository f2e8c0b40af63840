"""Airflow DAGs for Qlik messages on Kafka: one for every feed file with `dialect: qlik_messages`."""

from changeledger.config.files import readable_feeds
from changeledger.config.settings import Settings
from changeledger.orchestration import feed_dag

feeds, _ = readable_feeds(Settings().feeds)
for feed in feeds.values():
    if feed.dialect == "qlik_messages":
        feed_dag(feed)
