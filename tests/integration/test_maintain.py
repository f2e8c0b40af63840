"""Maintenance of a real lake: fewer files, the same rows, and nothing taken that somebody needs."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from changeledger.config import Feed, Settings
from changeledger.errors import LeaseHeld
from changeledger.stages import audit, extract, maintain, normalize, publish, reconcile
from changeledger.storage import lake
from changeledger.storage.control import ControlStore
from changeledger.storage.releases import release_tag
from changeledger.window import Request, Window
from sourcelab import sqlserver_cdc
from sourcelab.log import Log, simulate
from sourcelab.services import Postgres
from tests.integration.line import BEGIN, cdc_feed, lake_name, rows, run

pytestmark = pytest.mark.integration

CUTS = (0, 12, 18, 24)
KINDS = ("", "_history", "_changes")


@pytest.fixture
def log() -> Log:
    return simulate(5, CUTS[-1])


@pytest.fixture
def source(log: Log, tmp_path: Path) -> Iterator[Postgres]:
    with Postgres(tmp_path) as postgres:
        sqlserver_cdc.load(postgres.url, log, to_tx=CUTS[1])
        yield postgres


def over() -> Window:
    return Window(start=BEGIN, end=datetime.now(UTC), request=Request(run="scheduled__1"))


def content(spark: SparkSession, feed: Feed) -> dict[str, list[str]]:
    return {kind: sorted(map(repr, rows(spark, lake_name(feed, "dbo.customers", kind)))) for kind in KINDS}


def files(spark: SparkSession, table: str) -> tuple[int, int]:
    """Data files and delete files of main."""
    found = spark.table(f"{table}.files").groupBy("content").count().collect()
    counts = {row["content"]: row["count"] for row in found}
    return counts.get(0, 0), sum(count for content, count in counts.items() if content)


def tags(spark: SparkSession, table: str) -> set[str]:
    return {row["name"] for row in spark.table(f"{table}.refs").where("type = 'TAG'").collect()}


def test_a_maintained_lake(
    spark: SparkSession, source: Postgres, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    more: dict[str, Any] = {"tables": [{"table": "dbo.customers"}], "keep": timedelta(microseconds=1)}
    feed = cdc_feed("maintained", source, monkeypatch, **more)
    control = ControlStore(Settings().control_url)
    run(spark, feed, over())
    for begin, end in pairwise(CUTS[1:]):
        sqlserver_cdc.append(source.url, log, begin, end)
        run(spark, feed, over())
    history = lake_name(feed, "dbo.customers", "_history")
    before = content(spark, feed)
    data, deletes = files(spark, history)
    assert deletes, "merge-on-read: there is something to do"
    (one, *_) = spark.table(f"{history}.files").collect()
    folder = Path(one["file_path"].removeprefix("file:")).parent
    stray, fresh = folder / "stray.parquet", folder / "fresh.parquet"
    for file in (stray, fresh):
        file.write_bytes(b"of a write that was broken off")
    long_ago = time.time() - timedelta(days=10).total_seconds()
    os.utime(stray, (long_ago, long_ago))

    # A window is built, and waits for a person.
    waiting = over()
    for stage in (extract, normalize, reconcile, audit):
        stage.run(spark, feed, waiting)
    with pytest.raises(LeaseHeld, match="is at work"):
        maintain.run(spark, feed, "maintain (weekly)")
    control.release_lease(feed.feed, waiting.holder)
    maintain.run(spark, feed, "maintain (weekly)")
    assert files(spark, history) == (data, deletes), "a branch stands on it: not compacted"
    assert not stray.exists()
    assert fresh.exists()
    newest = control.latest_release(feed.feed)
    assert newest is not None
    assert {tag for tag in tags(spark, history) if tag.startswith("release")} == {release_tag(newest.id)}
    publish.run(spark, feed, waiting)
    assert content(spark, feed) == before

    maintain.run(spark, feed, "maintain (weekly)")
    compacted, left = files(spark, history)
    assert compacted < data
    assert left == 0
    assert content(spark, feed) == before
    assert control.lease(feed.feed) is None
    last = control.latest_release(feed.feed)
    assert last is not None
    tagged = spark.table(f"{history}.tag_{release_tag(last.id)}")
    assert sorted(map(repr, tagged.collect())) == before["_history"], "still read by its tag"
    # And the line goes on.
    end = datetime.now(UTC)
    again = Request(mode="window", tables=("dbo.customers",), run="manual__1")
    run(spark, feed, Window(start=BEGIN, end=end - timedelta(seconds=1), request=again))
    assert content(spark, feed) == before
    assert lake.snapshot_of(spark, history, "main") is not None
