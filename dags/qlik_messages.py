"""Airflow DAGs for Qlik messages on Kafka: one for every feed file with `dialect: qlik_messages`."""

from changeledger.config import Settings, readable_feeds
from changeledger.orchestration import feed_dag

feeds, _ = readable_feeds(Settings().feeds)
for feed in feeds.values():
    if feed.dialect == "qlik_messages":
        feed_dag(feed)
