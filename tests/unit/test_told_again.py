"""Rows that a topic tells again: each must be what its key was just before."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.ledgers import published_of
from tests.released import release

from changeledger import change
from changeledger.config import Feed, Settings
from changeledger.contract import Column, Contract, TableNames
from changeledger.databases import KEPT, NEEDED, Database
from changeledger.errors import ConfigError, PublishedDrifts
from changeledger.reconcile import told_again
from changeledger.stages import proofs, verify
from changeledger.storage import lake, refs
from changeledger.storage.control import ControlStore
from changeledger.window import Window

CONTRACT = Contract(
    table="dbo.t",
    columns=(
        Column(name="id", type="int", ordinal=1, nullable=False, key_position=1),
        Column(name="a", type="int", ordinal=2),
        Column(name="b", type="nvarchar(9)", ordinal=3),
    ),
)
AT = datetime(2026, 8, 7, 16, tzinfo=UTC)

# (key, operation, a, b); a b of `?` is not known.
TOLD: tuple[tuple[int, str, int | None, str | None], ...] = (
    (1, "insert", 1, "x"),
    (2, "insert", 1, "x"),
    (3, "insert", 1, "x"),
    (3, "delete", 1, "x"),
    (5, "insert", 1, "?"),
    (6, "insert", 1, None),
    (6, "update", 1, "y"),
    (7, "insert", 7, "never told again"),
    (1, "snapshot", 1, "x"),
    (2, "snapshot", 2, None),
    (3, "snapshot", 3, "x"),
    (4, "snapshot", 4, "new"),
    (5, "snapshot", 1, "late"),
    (6, "snapshot", 1, "y"),
)


def rows(run: str = "run") -> list[dict[str, Any]]:
    """Of the ledger."""
    found = []
    for at, (key, operation, a, b) in enumerate(TOLD):
        side = "before" if operation == "delete" else "after"
        unknown = b == "?"
        row: dict[str, Any] = {
            "change_id": f"c{at}", "operation": operation, "key": (key,),
            side: (key, a, None if unknown else b),
            f"{side}_gaps": {"b": change.UNAVAILABLE} if unknown else None,
            "sort_key": at.to_bytes(4), "commit_lsn": at.to_bytes(10),
            "committed_at": AT + timedelta(seconds=at), "record": ("topic", 0, at, None), "run_id": run,
        }  # fmt: skip
        found.append(row)
    return found


def ledger(spark: SparkSession, run: str = "run") -> DataFrame:
    columns = change.ledger_columns(CONTRACT)
    return spark.createDataFrame(
        [tuple(row.get(name) for name, _ in columns) for row in rows(run)],
        ", ".join(f"{change.quoted(n)} {kind}" for n, kind in columns),
    )


def test_against_the_version_before(spark: SparkSession) -> None:
    history = published_of(spark, rows(), CONTRACT).history
    judged = told_again.judged(history, ledger(spark), CONTRACT, ["run"]).collect()
    found = {row["key"]: (row["verdict"], row["change_id"]) for row in judged}
    # 4 is new to the feed: there is nothing to hold it against. What was not known before cannot differ.
    assert found == {
        '{"id":1}': ("equal", "c0"), '{"id":2}': ("differs", "c1"), '{"id":3}': ("missing", "c3"),
        '{"id":5}': ("equal", "c4"), '{"id":6}': ("equal", "c6"),
    }  # fmt: skip
    (cells,) = [row["cells"] for row in judged if row["cells"] is not None]
    assert [tuple(cell) for cell in cells] == [("a", "2", "1"), ("b", "NULL", "x")]
    assert told_again.judged(history, ledger(spark), CONTRACT, ["another run"]).isEmpty()


def publish(spark: SparkSession, feed: Feed, window: Window) -> None:
    """A release as the five stages would leave it."""
    control, names = ControlStore(Settings().control_url), TableNames.of(feed.namespace, CONTRACT.table)
    lake.create_namespace(spark, feed.namespace)
    made = published_of(spark, rows(window.id), CONTRACT, window.id)
    snapshots = {
        name: lake.put(table, name)
        for name, table in zip(names, (made.current, made.history, ledger(spark, window.id)), strict=True)
    }
    counts = {"tables": {CONTRACT.table: {"changes": {"insert": 6, "snapshot": 6}}}}
    released = release(control, feed.feed, [CONTRACT], window, snapshots, counts, {"t": {"0": 1}})
    for name, snapshot in snapshots.items():
        refs.set_tag(name, f"release_{released}", snapshot)
    control.complete_release(feed.feed, released)


def test_a_release_with_rows_of_a_snapshot_is_looked_at_once(spark: SparkSession) -> None:
    feed = Feed.model_validate(
        {
            "feed": "stream", "dialect": "ces", "database": "told", "connection": "none",
            "source": {"topics": ["t"]}, "tables": [{"table": CONTRACT.table}],
        }
    )  # fmt: skip
    feeds, database = {feed.feed: feed}, Database(database="told")
    assert not verify.waits(database, feeds, NEEDED)
    with pytest.raises(ConfigError, match="no feed 'other'"):
        verify.run(spark, database, feeds, only="other")
    publish(spark, feed, Window(start=AT, end=AT + timedelta(hours=1)))
    assert verify.waits(database, feeds, KEPT)
    with pytest.raises(PublishedDrifts, match=r"stream dbo\.t: 1 missing, 1 differs"):
        verify.run(spark, database, feeds)
    (row,) = proofs.last_proofs(ControlStore(Settings().control_url), "told")["stream"]
    assert (row.against, row.outcome, row.counts["rows"], row.counts["equal"]) == ("topic", "drift", 5, 3)
    drift = {r["key"]: r for r in spark.table(proofs.DRIFT).where("feed = 'stream'").collect()}
    assert {key: (r["verdict"], r["operation"], r["record"]["offset"]) for key, r in drift.items()} == {
        '{"id":2}': ("differs", "insert", 1),
        '{"id":3}': ("missing", "delete", 3),
    }
    # The rows are published: nothing is left to mend, or to look at.
    assert spark.table(proofs.REPAIRS).where("feed = 'stream'").isEmpty()
    assert verify.run(spark, database, feeds) == []
    assert not verify.waits(database, feeds, NEEDED)
