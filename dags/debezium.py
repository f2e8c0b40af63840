"""Airflow DAGs for Debezium topics on Kafka: one for every feed file with `dialect: debezium`."""

from changeledger.config.files import readable_feeds
from changeledger.config.settings import Settings
from changeledger.orchestration import feed_dag

feeds, _ = readable_feeds(Settings().feeds)
for feed in feeds.values():
    if feed.dialect == "debezium":
        feed_dag(feed)
