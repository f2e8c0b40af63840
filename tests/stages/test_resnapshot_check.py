"""Rows that a topic sends again: each must equal what its key was just before."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from changeledger.config.database import AUTO, REUSE, Database
from changeledger.config.feed import Feed
from changeledger.config.settings import Settings
from changeledger.control import ControlStore
from changeledger.control.outcomes import last_proofs
from changeledger.lake import catalog, refs
from changeledger.model import table_names
from changeledger.model.errors import ConfigError, PublishedDrifts
from changeledger.model.table_names import TableNames
from changeledger.model.window import Window
from changeledger.reconcile.buckets import current
from changeledger.stages import verify
from tests.feeds import feed_of
from tests.reconcile.tables import all_at_once, ledger
from tests.redelivered_rows import AT, CONTRACT, rows
from tests.released import release
from tests.stored_rows import replace_rows


def publish(feed: Feed, window: Window) -> None:
    """Publishes a release like the five stages."""
    control, names = ControlStore(Settings().control_url), TableNames.of(feed.namespace, CONTRACT.table)
    catalog.create_namespace(feed.namespace)
    changes = ledger(rows(window.id), CONTRACT)
    built = all_at_once(changes, CONTRACT, window.id)
    history = pa.concat_tables([built.closed, built.opened])
    for name, table in zip(names, (current(built.opened, CONTRACT), history, changes), strict=True):
        replace_rows(name, table)
    snapshots = refs.heads(names, refs.MAIN)
    counts = {"tables": {CONTRACT.table: {"changes": {"insert": 6, "snapshot": 6}}}}
    released = release(control, feed.feed, [CONTRACT], window, snapshots, counts, {"t": {"0": 1}})
    for name, snapshot in snapshots.items():
        refs.set_tag(name, f"release_{released}", snapshot)
    control.releases.complete(feed.feed, released)


def test_a_release_with_rows_of_a_snapshot_is_looked_at_once(spark: SparkSession) -> None:
    feed = feed_of("stream", CONTRACT.table, database="redelivered")
    feeds, database = {feed.feed: feed}, Database(database="redelivered")
    assert not verify.waits(database, feeds, AUTO)
    with pytest.raises(ConfigError, match="no feed 'other'"):
        verify.run(spark, database, feeds, only="other")
    publish(feed, Window(start=AT, end=AT + timedelta(hours=1)))
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
