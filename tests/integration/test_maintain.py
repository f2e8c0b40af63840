"""Maintenance of a real lake: fewer files, the same rows, and nothing removed that is needed."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from changeledger.config.feed import Feed
from changeledger.config.settings import Settings
from changeledger.control import ControlStore
from changeledger.kernels.arrow import table_schema
from changeledger.lake import catalog, iceberg, new_tables, refs, rewrites
from changeledger.lake.refs import release_tag
from changeledger.model import change
from changeledger.model.errors import LeaseHeld, StageOrderError
from changeledger.model.window import Request, Window
from changeledger.stages import audit, extract, maintain, normalize, publish, reconcile
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
def source(log: Log, postgres: Postgres) -> Postgres:
    sqlserver_cdc.load(postgres.url, log, to_tx=CUTS[1])
    return postgres


def over() -> Window:
    return Window(start=BEGIN, end=datetime.now(UTC), request=Request(run="scheduled__1"))


def content(spark: SparkSession, feed: Feed) -> dict[str, list[str]]:
    return {kind: sorted(map(repr, rows(spark, lake_name(feed, "dbo.customers", kind)))) for kind in KINDS}


def files(spark: SparkSession, table: str) -> tuple[int, int]:
    """Counts the data files and delete files of main."""
    groups = spark.table(f"{table}.files").groupBy("content").count().collect()
    counts = {row["content"]: row["count"] for row in groups}
    return counts.get(0, 0), sum(count for content, count in counts.items() if content)


def tags(spark: SparkSession, table: str) -> set[str]:
    return {row["name"] for row in spark.table(f"{table}.refs").where("type = 'TAG'").collect()}


@pytest.mark.long
def test_a_maintained_lake(
    spark: SparkSession, source: Postgres, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings: dict[str, Any] = {
        "tables": [{"table": "dbo.customers"}],
        "retention": timedelta(microseconds=1),
    }
    feed = cdc_feed("maintained", source, monkeypatch, **settings)
    control = ControlStore(Settings().control_url)
    # Rewritten like large files, in which positions are deleted.
    monkeypatch.setattr(rewrites, "_MOST_BYTES", -1)
    run(spark, feed, over())
    for begin, end in pairwise(CUTS[1:]):
        sqlserver_cdc.append(source.url, log, begin, end)
        run(spark, feed, over())
    history = lake_name(feed, "dbo.customers", "_history")
    before = content(spark, feed)
    data, deletes = files(spark, history)
    assert deletes, "merge-on-read: there is something to do"
    (file_row, *_) = spark.table(f"{history}.files").collect()
    folder = Path(file_row["file_path"].removeprefix("file:")).parent
    stray, fresh = folder / "stray.parquet", folder / "fresh.parquet"
    for file in (stray, fresh):
        file.write_bytes(b"of a write that was broken off")
    long_ago = time.time() - timedelta(days=10).total_seconds()
    os.utime(stray, (long_ago, long_ago))

    # A window is built, and waits for a person.
    waiting = over()
    for stage in (extract, normalize, reconcile, audit):
        stage.run(spark, feed, waiting)
    with pytest.raises(LeaseHeld, match="works on the feed"):
        maintain.run(spark, feed, "maintain (weekly)")
    control.leases.release(feed.feed, waiting.holder)
    maintain.run(spark, feed, "maintain (weekly)")
    assert files(spark, history) == (data, deletes), "a branch stands on it: not compacted"
    assert not stray.exists()
    assert fresh.exists()
    newest = control.releases.latest(feed.feed)
    assert newest is not None
    assert {tag for tag in tags(spark, history) if tag.startswith("release")} == {release_tag(newest.id)}
    publish.run(spark, feed, waiting)
    assert content(spark, feed) == before

    maintain.run(spark, feed, "maintain (weekly)")
    compacted, deletes_left = files(spark, history)
    assert compacted < data
    assert deletes_left == 0
    assert content(spark, feed) == before
    assert control.leases.of_feed(feed.feed) is None
    last = control.releases.latest(feed.feed)
    assert last is not None
    # Between main and the release are only rewritten files, which a rollback recognizes.
    maintain.run(spark, feed, "maintain (weekly)")
    for table, snapshot in last.tables.items():
        assert refs.is_rewritten(table, snapshot, refs.heads([table], refs.MAIN)[table]), table
    tagged = spark.table(f"{history}.tag_{release_tag(last.id)}")
    assert sorted(map(repr, tagged.collect())) == before["_history"], "still read by its tag"
    # The feed continues.
    end = datetime.now(UTC)
    again = Request(mode="window", tables=("dbo.customers",), run="manual__1")
    run(spark, feed, Window(start=BEGIN, end=end - timedelta(seconds=1), request=again))
    assert content(spark, feed) == before
    assert refs.snapshot_of(history) is not None


@pytest.mark.long
def test_what_nobody_needs_goes(
    spark: SparkSession, source: Postgres, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Branches of failed tries and dry runs, raw rows, Data Docs and verdicts go if nobody may need them."""
    no_time = dict.fromkeys(("retention", "raw_retention", "docs_retention"), timedelta(microseconds=1))
    feed = cdc_feed("forgetful", source, monkeypatch, tables=[{"table": "dbo.customers"}], **no_time)
    control, docs = ControlStore(Settings().control_url), Settings().data_docs / feed.feed
    first = over()
    run(spark, feed, first)
    raw, quarantine = "lake.forgetful.raw_dbo_customers", "lake.forgetful.quarantine"
    in_doubt = spark.table(raw).where(F.col("window_id") == first.id).limit(1).select(
        "window_id", F.lit("dbo.customers").alias("table"), "source_position",
        F.lit("null_key").alias("reason"),
        *(F.lit(None).cast(kind).alias(name) for name, kind in change.QUARANTINE_COLUMNS[4:]),
    )  # fmt: skip
    iceberg.append(in_doubt, quarantine)
    sqlserver_cdc.append(source.url, log, CUTS[1], CUTS[2])
    dry = Window(start=BEGIN, end=datetime.now(UTC), request=Request(dry_run=True, run="manual__1"))
    run(spark, feed, dry, (extract, normalize, reconcile, audit))
    # The new window does not read the quarantined record again.
    last = Window(start=first.end, end=datetime.now(UTC), request=Request(run="scheduled__2"))
    run(spark, feed, last)
    before = content(spark, feed)
    history = lake_name(feed, "dbo.customers", "_history")
    iceberg.fresh_branch(spark, history, f"{last.branch}_99")
    refs.set_branch(history, "of_a_person", refs.snapshot_of(history) or 0)
    assert not list(docs.rglob("*.gif")), "two moving pictures were most of its size"

    maintain.run(spark, feed, "maintain (weekly)")
    tables = catalog.tables(feed.namespace)
    assert refs.names(tables, refs.BRANCH) == {history: ["of_a_person"]}
    runs = {row["window_id"]: row["count"] for row in spark.table(raw).groupBy("window_id").count().collect()}
    assert runs.pop(first.id) == 1, "what may be read again"
    assert runs.keys() == {last.id}, "the newest release's"
    assert {folder.name for folder in docs.iterdir()} == {last.id}
    assert (control.audits.of_window(feed.feed, first.id), control.sources.reads(feed.feed, first.id)) == (
        [],
        [],
    )
    assert control.audits.of_window(feed.feed, last.id)
    stored = control.windows.row(feed.feed, first.id)
    assert stored is not None
    assert stored.released, "it is not run again"
    newest = control.releases.latest(feed.feed)
    assert newest is not None
    assert [row["release"] for row in rows(spark, "lake.forgetful.releases")] == [newest.id]
    assert content(spark, feed) == before
    with pytest.raises(StageOrderError, match="has not finished"):
        publish.run(spark, feed, Window(start=dry.start, end=dry.end))


@pytest.mark.long
def test_the_replay_list_as_a_window_that_is_extracted_reads_it(
    spark: SparkSession, source: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings: dict[str, Any] = {"retention": timedelta(microseconds=1)}
    feed = cdc_feed("listing", source, monkeypatch, tables=[{"table": "dbo.customers"}], **settings)
    run(spark, feed, over())
    control, listed = ControlStore(Settings().control_url), feed.lake.replay_requests
    new_tables.create(listed, table_schema(change.REPLAY_COLUMNS))
    rows_listed = spark.table("lake.listing.raw_dbo_customers").select(
        *(F.lit(None).cast(kind).alias(name) for name, kind in change.REPLAY_COLUMNS)
    )
    iceberg.append(rows_listed, listed)
    waiting = over()
    extract.run(spark, feed, waiting)
    iceberg.append(rows_listed, listed)
    control.leases.release(feed.feed, waiting.holder)
    maintain.run(spark, feed, "maintain (weekly)")
    row = control.windows.row(feed.feed, waiting.id)
    assert row is not None
    assert row.replay_snapshot is not None
    assert catalog.load(listed).metadata.snapshot_by_id(row.replay_snapshot) is not None
