"""Creates the Airflow DAGs of a project from its YAML. The files of a `dags/` folder call these functions.

A YAML file that cannot be read is left out without affecting the others. `refuse_wrong_settings`, in a DAG
file of its own, shows the error among Airflow's import errors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from changeledger.audit.remedies import require_own_names
from changeledger.config.database import Database, readable_databases
from changeledger.config.feed import Feed
from changeledger.config.files import readable_feeds
from changeledger.config.settings import Settings
from changeledger.model.errors import ConfigError
from changeledger.orchestration.database_dags import compare_dag, verify_dag
from changeledger.orchestration.feed_dag import feed_dag
from changeledger.orchestration.maintain_dag import maintain_dag
from changeledger.orchestration.notifiers import with_notifiers


def all_dags() -> None:
    feed_dags()
    compare_dags()
    verify_dags()
    maintenance_dag()


def feed_dags() -> None:
    """Creates a DAG for each feed, named after it."""
    for feed in _feeds().values():
        feed_dag(feed)


def compare_dags() -> None:
    """Creates a DAG for each database that several feeds capture."""
    for database, feeds in _databases():
        if database.is_compared(feeds):
            compare_dag(database, feeds)


def verify_dags() -> None:
    """Creates a DAG for each database that is to be verified."""
    for database, feeds in _databases():
        if database.is_verified(feeds):
            verify_dag(database, feeds)


def maintenance_dag() -> None:
    maintain_dag(_feeds().values())


def refuse_wrong_settings() -> None:
    """Raises ConfigError for all errors in the YAML of feeds and databases, or for a missing folder."""
    settings = Settings()
    if not settings.feeds.is_dir():
        raise ConfigError(
            f"there is no folder of feeds {settings.feeds}",
            "set CHANGELEDGER_PROJECT, for each of Airflow's services, to the folder of `changeledger init`",
        )
    feeds, of_feeds = readable_feeds(settings.feeds)
    databases, of_databases = readable_databases(settings.databases, feeds)
    # A database's file may be about a feed whose file is broken.
    unread = [] if of_feeds else [database.unread(feeds) for database in databases.values()]
    of_rules = [*_names_of_rules(feeds.values())]
    of_notifiers = [*with_notifiers(feeds)[1], *with_notifiers(databases)[1]]
    if errors := [*of_feeds, *of_databases.values(), *filter(None, unread), *of_rules, *of_notifiers]:
        raise ConfigError("; ".join(e.message for e in errors), "; ".join(e.remedy for e in errors))


def _names_of_rules(feeds: Iterable[Feed]) -> Iterator[ConfigError]:
    """Yields errors for expectations named like an audit rule, which would stop the feed's first run."""
    for feed in feeds:
        for table in feed.tables:
            try:
                require_own_names(table)
            except ConfigError as error:
                yield ConfigError(f"{feed.feed}: {error.message}", error.remedy)


def _feeds() -> dict[str, Feed]:
    feeds, _ = readable_feeds(Settings().feeds)
    return with_notifiers(feeds)[0]


def _databases() -> list[tuple[Database, Mapping[str, Feed]]]:
    """Returns each database with all feeds."""
    settings = Settings()
    feeds, _ = readable_feeds(settings.feeds)
    databases, _ = readable_databases(settings.databases, feeds)
    return [(database, feeds) for database in with_notifiers(databases)[0].values()]
