"""Shared by commands: the installation's lake, its feeds, and messages beside an answer."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import TYPE_CHECKING

from changeledger.config.database import Database, named_database
from changeledger.config.feed import Feed
from changeledger.config.files import readable_feeds
from changeledger.config.settings import Settings
from changeledger.console import terminal
from changeledger.model.errors import ConfigError
from changeledger.pages.escaping import escaped
from changeledger.state.stores import nothing_has_run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from changeledger.control import ControlStore


# Short, because somebody waits.
_PATIENCE_SECONDS = 4.0


@contextmanager
def opened(command: str, progress: bool = False) -> Iterator[SparkSession]:
    """Yields a session on the installation's lake. With `progress`, our log lines are shown."""
    # Imported here because it takes seconds: `--help` answers at once.
    from changeledger.spark.session import spark_session  # noqa: PLC0415

    require_lake()
    # PySpark would log the Java stack of a wrong query, in addition to the error that we print.
    if progress:
        _show_progress()
    else:
        logging.disable()
    with terminal.spark_log(command):
        spark = spark_session(f"changeledger {command}", _PATIENCE_SECONDS)
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def openable(command: str) -> Iterator[Callable[[], SparkSession]]:
    """Like `opened`, for a command that may not need Spark: the session starts when it is asked for."""
    require_lake()
    logging.disable()
    with ExitStack() as stack:
        yield cache(lambda: stack.enter_context(opened(command)))


def require_lake() -> None:
    """Raises ConfigError if all stores are embedded and none exists: opening would create empty ones."""
    settings = Settings()
    if nothing_has_run(settings):
        raise ConfigError(
            f"there is no lake in {settings.home}: no feed has run there",
            "set CHANGELEDGER_HOME to the folder of the runs (`make up` prints it), or run a feed first",
        )


def control_store() -> ControlStore:
    """Opens the control store. Raises ConfigError as `require_lake` does."""
    # Imported here because SQLAlchemy is slow to import: `--help` answers at once.
    from changeledger.control import ControlStore  # noqa: PLC0415

    require_lake()
    return ControlStore(Settings().control_url)


def readable() -> tuple[dict[str, Feed], bool]:
    """Returns the feeds whose files can be read, and whether others are broken. Prints their errors."""
    feeds, errors = readable_feeds(Settings().feeds)
    for error in errors:
        say(f"left out: {error}")
    return feeds, bool(errors)


def database_of(name: str) -> tuple[Database, dict[str, Feed]]:
    """Returns the database of that name, and the readable feeds. Raises ConfigError if there is none."""
    feeds, _ = readable()
    return named_database(Settings(), feeds, name), feeds


def say(text: str) -> None:
    """Prints a message beside the answer, to standard error, at once."""
    print(escaped(text), file=sys.stderr, flush=True)  # noqa: T201


def confirm(question: str, answer: str, done: str) -> None:
    """Asks for confirmation. Raises ConfigError, saying that nothing was `done`, unless it gets `answer`."""
    try:
        typed = input(question)
    except EOFError:
        typed = ""
    if typed.strip() != answer:
        raise ConfigError(f"nothing was {done}, because it was not confirmed", f"type {answer}, or add --yes")


def _show_progress() -> None:
    """Shows our own log lines on standard error, and no others."""
    logging.getLogger().addHandler(logging.NullHandler())
    lines = logging.StreamHandler()
    lines.setFormatter(terminal.Lines("%(asctime)s %(message)s", "%H:%M:%S"))
    ours = logging.getLogger("changeledger")
    ours.addHandler(lines)
    ours.setLevel(logging.INFO)
