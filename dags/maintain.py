"""The weekly Airflow DAG that compacts the lake and expires what nobody can ask for any more."""

from changeledger.config import Settings, readable_feeds
from changeledger.orchestration import maintain_dag

feeds, _ = readable_feeds(Settings().feeds)
maintain_dag(feeds.values())
