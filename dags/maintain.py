"""The weekly Airflow DAG that compacts the lake and expires what nobody can ask for any more."""

from changeledger.config.files import readable_feeds
from changeledger.config.settings import Settings
from changeledger.orchestration import maintain_dag, with_notifiers

feeds, _ = readable_feeds(Settings().feeds)
maintain_dag(with_notifiers(feeds)[0].values())
