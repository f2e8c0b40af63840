"""Runs windows of `records.feeds` in a home of its own, as a process: `carry PARTS OUT`.

`PARTS`: how many parts are sent and published; 0: only what is in flight, or new, is published, and the lake
is maintained. `OUT` gets the published rows as JSON, by feed and table.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from changeledger.config.feed import Feed
from changeledger.config.settings import Settings
from changeledger.control import ControlStore
from changeledger.model.table_names import TableNames
from changeledger.model.window import Window
from changeledger.stages import maintain
from changeledger.storage.session import spark_session
from tests.upgrade import records

BEGIN = datetime(2020, 1, 1, tzinfo=UTC)
# What depends on the windows.
_OF_THE_WINDOW = {"_window_id", "window_id", "source_position", "paired_source_position"}


def main(parts: int, out: Path) -> None:
    spark = spark_session("carry")
    feeds = records.feeds()
    for _ in range(parts or 1):
        if parts:
            print("send", flush=True)
            sys.stdin.readline()
        for feed in feeds.values():
            records.run(spark, feed, _next(feed))
    if not parts:
        for feed in feeds.values():
            maintain.run(spark, feed, "carry")
    out.write_text(json.dumps({name: _published(spark, feed) for name, feed in feeds.items()}))
    spark.stop()


def _next(feed: Feed) -> Window:
    """The window that is in flight, else one from where the feed has come to."""
    control = ControlStore(Settings().control_url)
    for row in control.open_windows(feed.feed):
        return Window(start=row.start, end=row.end, request=row.request)
    return Window(start=control.reached(feed.feed) or BEGIN, end=datetime.now(UTC))


def _published(spark: SparkSession, feed: Feed) -> dict[str, list[str]]:
    found = {}
    for table in feed.tables:
        for name in TableNames.of(feed.namespace, table.table):
            rows = spark.table(name).collect()
            found[name] = sorted(_plain(row.asDict(recursive=True)) for row in rows)
    return found


def _plain(row: dict[str, Any]) -> str:
    kept = {name: value for name, value in row.items() if name not in _OF_THE_WINDOW}
    return json.dumps(kept, default=lambda value: value.hex() if isinstance(value, bytearray) else str(value))


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
