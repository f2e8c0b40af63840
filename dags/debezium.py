"""Airflow DAGs for Debezium topics on Kafka: one for every feed file with `dialect: debezium`."""

from changeledger.config import Settings, load_feeds
from changeledger.orchestration import feed_dag

for feed in load_feeds(Settings().feeds).values():
    if feed.dialect == "debezium":
        feed_dag(feed)
