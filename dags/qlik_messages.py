"""Airflow DAGs for Qlik messages on Kafka: one for every feed file with `dialect: qlik_messages`."""

from changeledger.config import Settings, load_feeds
from changeledger.orchestration import feed_dag

for feed in load_feeds(Settings().feeds).values():
    if feed.dialect == "qlik_messages":
        feed_dag(feed)
