"""The frame of every job script: arguments, one session, one stage, an exit code that says what to do."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

from changeledger import exit_codes
from changeledger.config import Feed, Settings, Window, load_feeds
from changeledger.errors import ChangeledgerError, ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("changeledger")


def main(
    run: Callable[[SparkSession, Feed, Window], None],
    argv: list[str] | None = None,
) -> None:
    """Run one stage as the command line says.

    A ChangeledgerError ends the process with one of `exit_codes` and its remedy instead of a
    traceback; anything else is a fault of ours and keeps its traceback.
    """
    stage = run.__module__.rpartition(".")[2]
    arguments = _parser(stage).parse_args(argv)
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    # Chatty below us: a query's every gRPC call, a migration's every step.
    for name in ("py4j", "pyspark", "alembic", "great_expectations"):
        logging.getLogger(name).setLevel(logging.WARNING)
    try:
        _run(run, stage, arguments)
    except ChangeledgerError as error:
        log.error("%s: %s", type(error).__name__, error)
        sys.exit(exit_codes.RETRY if error.retryable else exit_codes.FINAL)


def _run(
    run: Callable[[SparkSession, Feed, Window], None], stage: str, arguments: argparse.Namespace
) -> None:
    feed = _feed(arguments.feed)
    window = _window(arguments.start, arguments.end)
    # Not at the top: `--help` and a wrong argument answer at once.
    from changeledger.storage.session import spark_session  # noqa: PLC0415

    log.info("%s %s %s .. %s", stage, feed.feed, window.start.isoformat(), window.end.isoformat())
    started = time.monotonic()
    spark = spark_session(f"changeledger-{feed.feed}-{stage}")
    attached = time.monotonic()
    run(spark, feed, window)
    log.info(
        "%s %s done in %.1f s, after %.1f s for the Spark session",
        stage,
        feed.feed,
        time.monotonic() - attached,
        attached - started,
    )


def _parser(stage: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"{stage}.py", description=f"Run the {stage} stage of one window.")
    parser.add_argument("--feed", required=True, help="the feed's name, as in its YAML file")
    parser.add_argument(
        "--start", required=True, type=_moment, help="start of the window, ISO 8601 with zone"
    )
    parser.add_argument("--end", required=True, type=_moment, help="end of the window, not included")
    return parser


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise argparse.ArgumentTypeError(f"{text!r} has no time zone; write for example 2026-01-31T05:00:00Z")
    return moment


def _feed(name: str) -> Feed:
    folder = Settings().feeds
    feeds = load_feeds(folder)
    if name not in feeds:
        raise ConfigError(
            f"there is no feed {name!r} in {folder} (there are: {', '.join(feeds) or 'none'})",
            "correct --feed, or set CHANGELEDGER_FEEDS to the folder that has its YAML file",
        )
    return feeds[name]


def _window(start: datetime, end: datetime) -> Window:
    if start >= end:
        raise ConfigError(f"the window {start} .. {end} is empty or reversed", "correct --start and --end")
    return Window(start=start, end=end)
