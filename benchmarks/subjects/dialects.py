"""Runs the stages of a feed for each of five dialects of one log, and optionally compare and verify of all.

    python -m benchmarks.subjects.dialects TRANSACTIONS [--prove] HOME

Marks: `made`, then one for each stage of each feed (`normalize debezium`), then `compare` and `verify`. The
feeds are the demo's. Another feed reads Debezium's messages first, so that no dialect pays for what is
started only once.
"""

from __future__ import annotations

import argparse
import json
import os
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.marks import mark
from changeledger.config.connection import connection_variable
from sourcelab.lab import Sources
from sourcelab.log import simulate
from sourcelab.tables import DATABASE

if TYPE_CHECKING:
    from changeledger.config.feed import Feed
    from changeledger.model.window import Window

FEEDS = Path(__file__).parents[2] / "include" / "feeds"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("transactions", type=int)
    parser.add_argument("--prove", action="store_true")
    parser.add_argument("home", type=Path)
    asked = parser.parse_args()
    os.environ["CHANGELEDGER_FEEDS"] = str(FEEDS)
    # The broker rejects messages with a time in the future.
    start = datetime.now(UTC).replace(microsecond=0) - timedelta(days=7)
    log = simulate(7, asked.transactions, start)
    sources = Sources(asked.home)
    with ExitStack() as services:
        for service in sources.services:
            services.enter_context(service)
        sources.load(log, len(log.transactions))
        for name, connection in sources.connections.items():
            os.environ[connection_variable(name)] = json.dumps(connection)
        _measure(start, prove=asked.prove)


def _measure(start: datetime, *, prove: bool) -> None:
    from changeledger.config.database import named_database  # noqa: PLC0415 - it reads the settings
    from changeledger.config.files import load_feeds  # noqa: PLC0415
    from changeledger.config.settings import Settings  # noqa: PLC0415
    from changeledger.model.window import Window  # noqa: PLC0415
    from changeledger.spark.session import spark_session  # noqa: PLC0415
    from changeledger.stages import compare, verify  # noqa: PLC0415

    settings = Settings()
    feeds = load_feeds(settings.feeds)
    spark = spark_session("changeledger-bench")
    window = Window(start=start, end=datetime.now(UTC))
    first = feeds["shop_debezium"].model_copy(update={"feed": "warm_up"})
    _run(spark, first, window, marked=False)
    mark("made")
    for feed in feeds.values():
        _run(spark, feed, window)
    if prove:
        database = named_database(settings, feeds, DATABASE)
        compare.run(spark, database, feeds)
        mark("compare")
        verify.run(spark, database, feeds)
        mark("verify")


def _run(spark: Any, feed: Feed, window: Window, *, marked: bool = True) -> None:
    from changeledger.stages import audit, extract, normalize, publish, reconcile  # noqa: PLC0415

    for stage in (extract, normalize, reconcile, audit, publish):
        stage.run(spark, feed, window)
        if marked:
            mark(f"{stage.__name__.rpartition('.')[2]} {feed.dialect}")


if __name__ == "__main__":
    main()
