"""Verify: what feeds have published against rows read of their source.

What is equal is proved at once, whoever lags behind. A difference is believed only once a feed must have told
all that was read: until then the proof waits, and the next call goes on with what was read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from changeledger.config import Feed, Settings
from changeledger.contract import Contract, TableNames
from changeledger.databases import KEPT, NEEDED, NEW, Database, Verify
from changeledger.errors import ConfigError, PublishedDrifts
from changeledger.plans import at_hand
from changeledger.reconcile import drift, proof
from changeledger.reconcile.proof import Fence, Proof, Published
from changeledger.stages import told_again
from changeledger.stages.proofs import COUNTED, DRIFT, DRIFTED, PROVEN, REPAIRS, SOURCE, WAITING, Keeper, told
from changeledger.stages.run import control_store, log
from changeledger.stages.snapshot import take
from changeledger.storage import lake
from changeledger.storage.control import ControlStore, ProofRow, ReleaseRow, SnapshotRow
from changeledger.storage.releases import release_tag

# Commit times are rounded by some tools, to a second at most; and clocks are set right.
_SLACK: Final = timedelta(seconds=5)


class _Table(NamedTuple):
    """A table of a feed, as its last release has it."""

    feed: Feed
    table: str
    contract: Contract
    release: ReleaseRow
    # Up to when the feed's windows reached before that release was looked up.
    reached: datetime | None


def run(
    spark: SparkSession, database: Database, feeds: Mapping[str, Feed], what: str = NEEDED, only: str = ""
) -> list[ProofRow]:
    """Prove every table of the database's feeds, or of the feed `only`; `what` is one of `databases.TAKES`.

    Raises PublishedDrifts where one is not what the source holds, with what was found kept before, and
    ConfigError where there is no such feed.
    """
    settings = Settings()
    control = control_store(settings)
    source, everyone = database.verified(feeds)
    chosen = [feed for feed in everyone if only in {"", feed.feed}]
    if not chosen:
        raise ConfigError(
            f"the database {database.database!r} has no feed {only!r}",
            f"name one of {', '.join(feed.feed for feed in everyone) or 'none'}",
        )
    keeper = Keeper(spark, control)
    rows = [row for feed in chosen for row in told_again.prove(spark, control, keeper, feed)]
    if source is not None:
        reading = _Reading(spark, control, database.database, source)
        rows += reading.prove(keeper, _published(control, chosen), what)
    drifted = [row for row in rows if row.outcome == DRIFTED]
    if drifted:
        raise PublishedDrifts(
            "; ".join(f"{row.feed} {row.table}: {told(row.counts)}" for row in drifted),
            f"open the page {settings.address(database.proofs(settings))}, or query {DRIFT}: what each row "
            f"is, what it should be, and since which change; {REPAIRS} has the changes that would mend it, "
            "which a run of the feed's DAG with the mode `repair` applies",
        )
    return rows


def waits(database: Database, feeds: Mapping[str, Feed], what: str) -> bool:
    """Is there anything to do? Asks the control store alone: a Spark takes long to start."""
    control = control_store(Settings())
    source, chosen = database.verified(feeds)
    if (source is not None and what != KEPT) or any(told_again.unproved(control, feed) for feed in chosen):
        return True
    snapshot = None if source is None else _kept(control, database.database, source)
    return snapshot is not None and bool(_unproved(control, snapshot, _published(control, chosen)))


def _published(control: ControlStore, feeds: Iterable[Feed]) -> list[_Table]:
    """What the feeds' last releases have. One that a crash left half done waits for the feed's next run."""
    found = []
    for feed in feeds:
        reached, release = control.reached(feed.feed), control.latest_release(feed.feed)
        if release is None or not release.completed:
            log.info("%s: no release to verify", feed.feed)
            continue
        contracts = control.contracts(feed.feed)
        for table in (t.table for t in feed.tables):
            names = TableNames.of(feed.namespace, table)
            if table in contracts and {names.current, names.history} <= release.tables.keys():
                found.append(_Table(feed, table, contracts[table], release, reached))
    return found


def _kept(control: ControlStore, database: str, source: Verify) -> SnapshotRow | None:
    snapshot = control.last_snapshot(database)
    if snapshot is None or snapshot.at < datetime.now(UTC) - source.keep:
        return None
    return snapshot


def _unproved(control: ControlStore, snapshot: SnapshotRow, tables: Iterable[_Table]) -> list[_Table]:
    """The tables of the snapshot whose proof has been tried, and waits."""
    rows = [row for row in control.proofs(snapshot.database) if row.snapshot_id == snapshot.id]
    waiting = {(row.feed, row.table) for row in rows if row.outcome == WAITING}
    return [one for one in tables if (one.feed.feed, one.table) in waiting and one.table in snapshot.tables]


def _contracts(tables: Sequence[_Table]) -> dict[str, Contract]:
    """Of each table the first feed's contract, with the columns that only the others have."""
    found: dict[str, Contract] = {}
    for one in tables:
        known = found.setdefault(one.table, one.contract)
        names = {c.name.lower() for c in known.columns}
        more = tuple(c for c in one.contract.columns if c.name.lower() not in names)
        found[one.table] = known.model_copy(update={"columns": (*known.columns, *more)})
    return found


@dataclass(frozen=True)
class _Reading:
    spark: SparkSession
    control: ControlStore
    database: str
    source: Verify

    def prove(self, keeper: Keeper, tables: Sequence[_Table], what: str) -> list[ProofRow]:
        """What waits, else all tables by what is read now.

        The source is also read where trying again leaves all that waits as it is, and not all feeds wait: a
        feed that has been paused does not keep the others from their proofs.
        """
        rows = [] if what == NEW else self._waiting(keeper, tables)
        behind = {row.feed for row in rows if row.outcome == WAITING}
        is_stuck = all(row.outcome == WAITING for row in rows) and behind != {one.feed.feed for one in tables}
        if what == KEPT or not tables or (rows and not is_stuck):
            return rows
        if behind:
            names = ", ".join(sorted(behind))
            log.info("%s: %s still wait; the source is read for the others", self.database, names)
        snapshot = take(self.spark, self.database, self.source, _contracts(tables))
        self.control.save_snapshot(snapshot)
        return self._proved(keeper, snapshot, tables)

    def _waiting(self, keeper: Keeper, tables: Sequence[_Table]) -> list[ProofRow]:
        """What waits, by what was read before."""
        snapshot = _kept(self.control, self.database, self.source)
        todo = [] if snapshot is None else _unproved(self.control, snapshot, tables)
        if snapshot is None or not todo:
            log.info("%s: nothing waits to be proved", self.database)
            return []
        return self._proved(keeper, snapshot, todo)

    def _proved(self, keeper: Keeper, snapshot: SnapshotRow, tables: Sequence[_Table]) -> list[ProofRow]:
        return lake.each(_Proving(self.spark, keeper, self.source, snapshot).table, tables)


@dataclass(frozen=True)
class _Proving:
    spark: SparkSession
    keeper: Keeper
    source: Verify
    snapshot: SnapshotRow

    def table(self, one: _Table) -> ProofRow:
        log.info("%s: %s: comparing with what was read at %s", one.feed.feed, one.table, self.snapshot.until)
        asked = self._proof(one)
        first = proof.tried(asked).collect()[0]
        counts = dict.fromkeys(COUNTED, 0) | {
            "rows": first["rows"],
            proof.EQUAL: first["equal"],
            "buckets": first["buckets"],
            "read_again": len(first["differing"]),
        }
        row = self._row(one, counts)
        if first["differing"] or first["apart"]:
            log.info(
                "%s: %s: %d of %d parts and %d keys are looked at row by row",
                one.feed.feed, one.table, len(first["differing"]), first["buckets"], first["apart"],
            )  # fmt: skip
            with at_hand() as keep:
                judged = keep(proof.judged(asked, first["differing"]))
                for verdict, n in _counted(judged).items():
                    counts[verdict] += n
                if any(counts[verdict] for verdict in proof.DRIFTS):
                    row.outcome = DRIFTED if self._is_settled(one) else WAITING
                if row.outcome == DRIFTED:
                    wrong = judged.where(F.col("verdict").isin(*proof.DRIFTS))
                    self._keep(keep(drift.explained(asked, wrong, self._ledger(one))), row)
        self.keeper.save(row)
        return row

    def _row(self, one: _Table, counts: dict[str, int]) -> ProofRow:
        return ProofRow(
            id=f"{self.snapshot.id}.{one.feed.feed}.{one.table}",
            against=SOURCE,
            snapshot_id=self.snapshot.id,
            database=self.snapshot.database,
            table=one.table,
            feed=one.feed.feed,
            release=one.release.id,
            outcome=PROVEN,
            since=self.snapshot.since,
            until=self.snapshot.until,
            since_lsn=self.snapshot.since_lsn,
            until_lsn=self.snapshot.until_lsn,
            counts=counts,
            at=datetime.now(UTC),
        )

    def _is_settled(self, one: _Table) -> bool:
        """Must the feed have told, and published, all that was read of the source?"""
        needed = self.snapshot.until + self.source.settle
        return one.reached is not None and one.reached >= needed

    def _proof(self, one: _Table) -> Proof:
        kept = self.snapshot.tables[one.table]
        rows = lake.read(self.spark, kept["name"], snapshot=kept["snapshot"])
        names, tag = TableNames.of(one.feed.namespace, one.table), release_tag(one.release.id)
        published = Published(
            lake.read(self.spark, names.current, at=tag),
            lake.read(self.spark, names.history, at=tag),
            one.contract,
        )
        lsns = (None if lsn is None else bytes.fromhex(lsn) for lsn in (
            self.snapshot.since_lsn, self.snapshot.until_lsn))  # fmt: skip
        since = self.snapshot.since - self.source.lag - _SLACK
        fence = Fence(since, self.snapshot.until + _SLACK, *lsns)
        return Proof.of(rows, Contract.model_validate(kept["contract"]), published, fence)

    def _ledger(self, one: _Table) -> DataFrame:
        names = TableNames.of(one.feed.namespace, one.table)
        return lake.read(self.spark, names.changes, at=release_tag(one.release.id))

    def _keep(self, explained: DataFrame, row: ProofRow) -> None:
        """The rows that are wrong, and the changes that would mend them, in the lake."""
        self.keeper.drifts(explained, row)
        self.keeper.repairs(explained.drop("operation").withColumnRenamed("repair", "operation"), row)


def _counted(judged: DataFrame) -> dict[str, int]:
    """Keys by verdict, and `unknown` cells."""
    # A key that lives on neither side is no row.
    is_row = (F.col("verdict") != proof.EQUAL) | F.col("is_there")
    by_verdict = judged.groupBy("verdict").agg(
        F.count_if(is_row).alias("keys"), F.sum("unknown").alias("unknown")
    )
    rows = by_verdict.collect()
    return {**{row["verdict"]: row["keys"] for row in rows}, "unknown": sum(row["unknown"] for row in rows)}
