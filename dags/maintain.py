"""The weekly Airflow DAG that compacts the lake and expires what nobody can ask for any more."""

from changeledger.config import Settings, load_feeds
from changeledger.orchestration import maintain_dag

maintain_dag(load_feeds(Settings().feeds).values())
