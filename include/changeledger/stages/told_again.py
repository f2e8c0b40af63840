"""Rows that a feed's topic tells again, against what the feed had published of their keys until then."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from changeledger import change
from changeledger.config import Feed
from changeledger.contract import Contract, TableNames
from changeledger.plans import Keep, at_hand
from changeledger.reconcile import proof, told_again
from changeledger.stages.proofs import COUNTED, DRIFTED, PROVEN, TOPIC, Keeper
from changeledger.storage import lake
from changeledger.storage.control import ControlStore, ProofRow, ReleaseRow
from changeledger.storage.releases import release_tag


def prove(spark: SparkSession, control: ControlStore, keeper: Keeper, feed: Feed) -> list[ProofRow]:
    """Of each table whose rows releases have brought again since the last such proof."""
    releases = unproved(control, feed)
    runs = {
        table: [release.window_id for release in releases if _snapshot_rows(release, table)]
        for table in (t.table for t in feed.tables)
    }
    contracts = control.contracts(feed.feed)
    with at_hand() as keep:
        return [
            _table(spark, keeper, _Told(feed, contracts[table], releases[-1], brought), keep)
            for table, brought in runs.items()
            if brought
        ]


def unproved(control: ControlStore, feed: Feed) -> list[ReleaseRow]:
    """The releases since the last such proof; none where they brought no rows of a snapshot."""
    rows = [r for r in control.proofs(feed.database) if (r.feed, r.against) == (feed.feed, TOPIC)]
    releases = control.releases_after(feed.feed, max((row.release for row in rows), default=0))
    tables = [t.table for t in feed.tables]
    brought = any(_snapshot_rows(release, table) for release in releases for table in tables)
    return releases if brought else []


def _snapshot_rows(release: ReleaseRow, table: str) -> int:
    changes = release.counts.get("tables", {}).get(table, {}).get("changes", {})
    return int(changes.get(change.SNAPSHOT, 0))


class _Told(NamedTuple):
    """A table of a feed as a release has it, and the runs that have brought rows of a snapshot."""

    feed: Feed
    contract: Contract
    release: ReleaseRow
    runs: Sequence[str]


def _table(spark: SparkSession, keeper: Keeper, told: _Told, keep: Keep) -> ProofRow:
    feed, release, table = told.feed, told.release, told.contract.table
    names, tag = TableNames.of(feed.namespace, table), release_tag(release.id)
    history, ledger = (lake.read(spark, name, at=tag) for name in (names.history, names.changes))
    judged = keep(told_again.judged(history, ledger, told.contract, told.runs))
    counts = dict.fromkeys(COUNTED, 0)
    for row in judged.groupBy("verdict").count().collect():
        counts[row["verdict"]] += row["count"]
        counts["rows"] += row["count"]
    is_wrong = any(counts[verdict] for verdict in proof.DRIFTS)
    made = ProofRow(
        id=f"{feed.feed}.release_{release.id}.{table}",
        against=TOPIC,
        snapshot_id=f"release_{release.id}",
        database=feed.database,
        table=table,
        feed=feed.feed,
        release=release.id,
        outcome=DRIFTED if is_wrong else PROVEN,
        since=release.created_at,
        until=release.created_at,
        counts=counts,
        at=datetime.now(UTC),
    )
    if is_wrong:
        wrong = judged.where(F.col("verdict").isin(*proof.DRIFTS))
        keeper.drifts(_with_change(wrong, ledger), made)
    keeper.save(made)
    return made


def _with_change(wrong: DataFrame, ledger: DataFrame) -> DataFrame:
    """The change that was the key's last before the row."""
    few = F.broadcast(wrong.select("change_id").distinct())
    told = ledger.join(few, "change_id", "left_semi")
    of_change = told.select("change_id", "operation", "commit_lsn", "committed_at", "record")
    return wrong.join(of_change, "change_id", "left")
