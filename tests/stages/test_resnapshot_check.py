"""Rows that a topic sends again: each must equal what its key was just before."""

from __future__ import annotations

from datetime import timedelta

import pytest
from pyspark.sql import DataFrame, SparkSession

from changeledger.config.database import AUTO, REUSE, Database
from changeledger.config.feed import Feed
from changeledger.config.settings import Settings
from changeledger.control import ControlStore
from changeledger.control.outcomes import last_proofs
from changeledger.lake import catalog, iceberg, refs
from changeledger.model import change, table_names
from changeledger.model.errors import ConfigError, PublishedDrifts
from changeledger.model.table_names import TableNames
from changeledger.model.window import Window
from changeledger.stages import verify
from tests.ledgers import published_of
from tests.redelivered_rows import AT, CONTRACT, rows
from tests.released import release


def ledger(spark: SparkSession, run: str = "run") -> DataFrame:
    columns = change.ledger_columns(CONTRACT)
    return spark.createDataFrame(
        [tuple(row.get(name) for name, _ in columns) for row in rows(run)],
        ", ".join(f"{change.quoted(n)} {kind}" for n, kind in columns),
    )


def publish(spark: SparkSession, feed: Feed, window: Window) -> None:
    """Publishes a release like the five stages."""
    control, names = ControlStore(Settings().control_url), TableNames.of(feed.namespace, CONTRACT.table)
    catalog.create_namespace(feed.namespace)
    published = published_of(spark, rows(window.id), CONTRACT, window.id)
    snapshots = {
        name: iceberg.put(table, name)
        for name, table in zip(
            names, (published.current, published.history, ledger(spark, window.id)), strict=True
        )
    }
    counts = {"tables": {CONTRACT.table: {"changes": {"insert": 6, "snapshot": 6}}}}
    released = release(control, feed.feed, [CONTRACT], window, snapshots, counts, {"t": {"0": 1}})
    for name, snapshot in snapshots.items():
        refs.set_tag(name, f"release_{released}", snapshot)
    control.releases.complete(feed.feed, released)


def test_a_release_with_rows_of_a_snapshot_is_looked_at_once(spark: SparkSession) -> None:
    feed = Feed.model_validate(
        {
            "feed": "stream", "dialect": "ces", "database": "redelivered", "connection": "none",
            "source": {"topics": ["t"]}, "tables": [{"table": CONTRACT.table}],
        }
    )  # fmt: skip
    feeds, database = {feed.feed: feed}, Database(database="redelivered")
    assert not verify.waits(database, feeds, AUTO)
    with pytest.raises(ConfigError, match="no feed 'other'"):
        verify.run(spark, database, feeds, only="other")
    publish(spark, feed, Window(start=AT, end=AT + timedelta(hours=1)))
    assert verify.waits(database, feeds, REUSE)
    with pytest.raises(PublishedDrifts, match=r"stream dbo\.t: 1 missing, 1 differs"):
        verify.run(spark, database, feeds)
    (row,) = last_proofs(ControlStore(Settings().control_url).proofs, "redelivered")["stream"]
    assert (row.against, row.outcome, row.counts["rows"], row.counts["equal"]) == ("topic", "drift", 5, 3)
    drift = {r["key"]: r for r in spark.table(table_names.DRIFT).where("feed = 'stream'").collect()}
    assert {
        key: (r["verdict"], r["operation"], r["source_position"]["offset"]) for key, r in drift.items()
    } == {
        '{"id":2}': ("differs", "insert", 1),
        '{"id":3}': ("missing", "delete", 3),
    }
    # The rows are published: nothing is left to correct or to check.
    assert spark.table(table_names.REPAIRS).where("feed = 'stream'").isEmpty()
    assert verify.run(spark, database, feeds) == []
    assert not verify.waits(database, feeds, AUTO)
