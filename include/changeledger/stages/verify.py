"""Verify: what feeds have published against rows read of their source.

What is equal is proved at once, whoever lags behind. A difference is believed only once a feed must have told
all that was read: until then the proof waits, and the next call goes on with what was read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from changeledger.config import Feed, Settings
from changeledger.contract import Contract, TableNames
from changeledger.databases import Database, Verify
from changeledger.errors import PublishedDrifts
from changeledger.reconcile import drift, proof
from changeledger.reconcile.proof import Fence, Proof, Published
from changeledger.stages.run import NAMESPACE, control_store, log
from changeledger.stages.snapshot import take
from changeledger.storage import lake
from changeledger.storage.control import ControlStore, ProofRow, ReleaseRow, SnapshotRow
from changeledger.storage.releases import release_tag

DRIFT: Final = f"lake.{NAMESPACE}.drift"
REPAIRS: Final = f"lake.{NAMESPACE}.repairs"

PROVEN, WAITING, DRIFTED = "proven", "waiting", "drift"

# Whether to read the source: where nothing waits any more; in any case; or not at all.
NEEDED, NEW, KEPT = "needed", "new", "kept"
TAKES: Final = (NEEDED, NEW, KEPT)

# Commit times are rounded by some tools, to a second at most; and clocks are set right.
_SLACK: Final = timedelta(seconds=5)
_AT_ONCE = 4

COUNTED: Final = (
    "rows", proof.EQUAL, proof.IN_FLIGHT, proof.MISSING, proof.SURPLUS, proof.DIFFERS, "unknown", "buckets",
    "read_again",
)  # fmt: skip


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
    """Prove every table of the database's feeds, or of the feed `only`; `what` is one of TAKES.

    Raises PublishedDrifts where one is not what the source holds; what was found is kept before.
    """
    settings = Settings()
    control = control_store(settings)
    source, chosen = database.verified(feeds)
    tables = _published(control, [feed for feed in chosen if only in {"", feed.feed}])
    snapshot = _kept(control, database, source)
    todo = [] if snapshot is None or what == NEW else _unproved(control, snapshot, tables)
    if not todo:
        if what == KEPT or not tables:
            log.info("%s: nothing waits to be proved", database.database)
            return []
        lake.create_namespace(spark, NAMESPACE)
        snapshot = take(spark, database.database, source, _contracts(tables))
        control.save_snapshot(snapshot)
        todo = tables
    assert snapshot is not None, "there is one where something waits"
    for name, columns in ((DRIFT, drift.DRIFT_COLUMNS), (REPAIRS, drift.REPAIR_COLUMNS)):
        lake.create(spark, name, columns, ["proof_id"])
    proving = _Proving(spark, control, source, snapshot, Lock())
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        rows = list(pool.map(proving.table, todo))
    drifted = [row for row in rows if row.outcome == DRIFTED]
    if drifted:
        raise PublishedDrifts(
            "; ".join(f"{row.feed} {row.table}: {told(row.counts)}" for row in drifted),
            f"open the page {database.proofs(settings)}, or query {DRIFT}: what each row is, what it should "
            f"be, and since which change; {REPAIRS} has the changes that would mend it",
        )
    return rows


def waits(database: Database, feeds: Mapping[str, Feed], what: str) -> bool:
    """Is there anything to do? Asks the control store alone: a Spark takes long to start."""
    if what != KEPT:
        return True
    control = control_store(Settings())
    source, chosen = database.verified(feeds)
    snapshot = _kept(control, database, source)
    return snapshot is not None and bool(_unproved(control, snapshot, _published(control, chosen)))


def told(counts: Mapping[str, int]) -> str:
    """The rows that are wrong, in words."""
    return ", ".join(f"{counts[verdict]:,} {verdict}" for verdict in proof.DRIFTS if counts[verdict])


def worst(outcomes: Iterable[str]) -> str:
    """The gravest of the outcomes; PROVEN where there are none."""
    return max(outcomes, key=(PROVEN, WAITING, DRIFTED).index, default=PROVEN)


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


def _kept(control: ControlStore, database: Database, source: Verify) -> SnapshotRow | None:
    snapshot = control.last_snapshot(database.database)
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
class _Proving:
    spark: SparkSession
    control: ControlStore
    source: Verify
    snapshot: SnapshotRow
    # One writer at a time of the tables that all proofs share.
    writing: Lock

    def table(self, one: _Table) -> ProofRow:
        asked = self._proof(one)
        first = proof.tried(asked).collect()[0]
        counts = dict.fromkeys(COUNTED, 0) | {
            "rows": first["rows"],
            proof.EQUAL: first["equal"],
            "buckets": first["buckets"],
            "read_again": len(first["differing"]),
        }
        outcome, proof_id = PROVEN, f"{self.snapshot.id}.{one.feed.feed}.{one.table}"
        if first["differing"] or first["apart"]:
            judged = proof.judged(asked, first["differing"]).persist()
            for verdict, n in _counted(judged).items():
                counts[verdict] += n
            if any(counts[verdict] for verdict in proof.DRIFTS):
                outcome = DRIFTED if self._is_settled(one) else WAITING
            if outcome == DRIFTED:
                drifts = judged.where(F.col("verdict").isin(*proof.DRIFTS))
                self._keep(drift.explained(asked, drifts, self._ledger(one)), one, proof_id)
            judged.unpersist()
        row = self._row(one, proof_id, outcome, counts)
        self.control.save_proof(row)
        wrong = told(counts) or "nothing wrong"
        log.info("%s: %s: %s, %s in %d rows", one.feed.feed, one.table, outcome, wrong, counts["rows"])
        return row

    def _row(self, one: _Table, proof_id: str, outcome: str, counts: dict[str, int]) -> ProofRow:
        return ProofRow(
            id=proof_id,
            snapshot_id=self.snapshot.id,
            database=self.snapshot.database,
            table=one.table,
            feed=one.feed.feed,
            release=one.release.id,
            outcome=outcome,
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

    def _keep(self, explained: DataFrame, one: _Table, proof_id: str) -> None:
        """The rows that are wrong, and the changes that would mend them, in the lake."""
        named = {
            "proof_id": proof_id,
            "database": self.snapshot.database,
            "table": one.table,
            "feed": one.feed.feed,
        }
        told = explained.withColumns({name: F.lit(value) for name, value in named.items()}).persist()
        mends = told.drop("operation").withColumnRenamed("repair", "operation")
        kept = ((told, DRIFT, drift.DRIFT_COLUMNS), (mends, REPAIRS, drift.REPAIR_COLUMNS))
        with self.writing:
            for rows, name, columns in kept:
                of_table = rows.select(*(F.col(n).cast(kind) for n, kind in columns))
                lake.replace_partition(of_table, name, "proof_id", proof_id)
        told.unpersist()


def _counted(judged: DataFrame) -> dict[str, int]:
    """Keys by verdict, and `unknown` cells."""
    # A key that lives on neither side is no row.
    is_row = (F.col("verdict") != proof.EQUAL) | F.col("is_there")
    by_verdict = judged.groupBy("verdict").agg(
        F.count_if(is_row).alias("keys"), F.sum("unknown").alias("unknown")
    )
    rows = by_verdict.collect()
    return {**{row["verdict"]: row["keys"] for row in rows}, "unknown": sum(row["unknown"] for row in rows)}
