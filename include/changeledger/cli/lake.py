"""What commands share: the lake of this installation, its feeds, and what is said beside an answer."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import TYPE_CHECKING

from changeledger.config.feed import Feed
from changeledger.config.files import readable_feeds
from changeledger.config.settings import Settings
from changeledger.console import terminal
from changeledger.model.errors import ConfigError
from changeledger.pages.escaping import escaped
from changeledger.state.stores import nothing_has_run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# Somebody waits.
_PATIENCE_SECONDS = 4.0


@contextmanager
def opened(command: str, progress: bool = False) -> Iterator[SparkSession]:
    """A session on the lake of this installation; our own log lines show the `progress` of a long command."""
    # Seconds to import: `--help` answers at once.
    from changeledger.spark.session import spark_session  # noqa: PLC0415

    require_lake(Settings())
    # Spark's Python side would log a wrong query's Java stack, beside the error that we print.
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
    """As `opened`, of a command that may do without Spark: the session begins where it is asked for."""
    require_lake(Settings())
    logging.disable()
    with ExitStack() as stack:
        yield cache(lambda: stack.enter_context(opened(command)))


def require_lake(settings: Settings) -> None:
    """Raises ConfigError if all is embedded and nothing is there: stores would be made, and be empty."""
    if nothing_has_run(settings):
        raise ConfigError(
            f"there is no lake in {settings.home}: nothing has been run with it",
            "set CHANGELEDGER_HOME to the folder of the runs (`make up` prints it), or run a feed first",
        )


def readable() -> tuple[dict[str, Feed], bool]:
    """The feeds whose files can be read, and whether others are broken: these are named beside the answer."""
    feeds, errors = readable_feeds(Settings().feeds)
    for error in errors:
        say(f"left out: {error}")
    return feeds, bool(errors)


def say(text: str) -> None:
    """Beside the answer, at once."""
    print(escaped(text), file=sys.stderr, flush=True)  # noqa: T201


def confirm(question: str, answer: str, done: str) -> None:
    """Raises ConfigError if nobody has typed the answer: nothing was `done`."""
    try:
        typed = input(question)
    except EOFError:
        typed = ""
    if typed.strip() != answer:
        raise ConfigError(f"nothing was {done}: it was not confirmed", f"type {answer}, or say --yes")


def _show_progress() -> None:
    """Our own log lines on standard error, and nobody else's."""
    logging.getLogger().addHandler(logging.NullHandler())
    lines = logging.StreamHandler()
    lines.setFormatter(terminal.Lines("%(asctime)s %(message)s", "%H:%M:%S"))
    ours = logging.getLogger("changeledger")
    ours.addHandler(lines)
    ours.setLevel(logging.INFO)
