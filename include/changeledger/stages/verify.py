"""Verify: compares what feeds have published with rows read from their source.

Equal rows are proved at once, even if a feed lags behind. A difference counts only once the feed must have
sent everything that was read. Until then the proof waits, and the next call continues with the same snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from pyspark.sql import SparkSession

from changeledger.config.database import AUTO, FRESH, REUSE, Database, Verify
from changeledger.config.feed import Feed
from changeledger.config.settings import Settings
from changeledger.control import ControlStore, ProofRow, ReleaseRow, SnapshotRow, WindowRow
from changeledger.control.outcomes import DRIFTED, PROVEN, SOURCE, WAITING
from changeledger.lake.refs import release_tag
from changeledger.model.column_names import shown
from changeledger.model.contract import Contract
from changeledger.model.errors import ConfigError, PublishedDrifts
from changeledger.model.misspelt import choice
from changeledger.model.table_names import DRIFT, REPAIRS, TableNames
from changeledger.spark.rows import Workers
from changeledger.spark.session import for_small_data
from changeledger.stages.common.context import control_store, log
from changeledger.stages.common.databases import first_row
from changeledger.stages.common.publishing import require_names
from changeledger.stages.common.stored import Readable, Stored
from changeledger.stages.verification import resnapshot_check
from changeledger.stages.verification.proofs import COUNTED, ProofWriter
from changeledger.stages.verification.snapshot import is_sent, take
from changeledger.stages.verification.tables import Proof, concluded, published_rows
from changeledger.verify import drift, verdicts
from changeledger.verify.fence import Fence
from changeledger.verify.versions import CURRENT, HISTORY
from changeledger.verify.versions import SOURCE as READ

# Some tools round commit times, to a second at most, and clocks may be adjusted.
_SLACK: Final = timedelta(seconds=5)


class _Table(NamedTuple):
    """A table of a feed at its last release."""

    feed: Feed
    table: str
    # With the source's columns.
    contract: Contract
    release: ReleaseRow
    # The furthest window of the feed before that release was looked up.
    furthest: WindowRow | None

    @property
    def names(self) -> TableNames:
        return TableNames.of(self.feed.namespace, self.table)

    @property
    def in_source(self) -> str:
        """Its name in a snapshot, in lower case: feeds may write the same table in different cases."""
        return self.table.lower()


def run(
    spark: SparkSession, database: Database, feeds: Mapping[str, Feed], what: str = AUTO, only: str = ""
) -> list[ProofRow]:
    """Proves every table of the database's feeds, or of the feed `only`. `what`: one of `SNAPSHOTS`.

    Raises PublishedDrifts, with the findings saved, if a table does not match its source; ConfigError if
    there is no such feed; LeaseHeld while another process verifies the database or erases a row of it.
    """
    control = control_store(settings := Settings())
    source, everyone = database.verified(feeds)
    chosen = [feed for feed in everyone if only in {"", feed.feed}]
    if not chosen:
        names, name = [feed.feed for feed in everyone], database.database
        raise ConfigError(
            f"the database {name!r} has no feed {only!r}" if names else f"the database {name!r} has no feed",
            choice(only, names) if names else f"write `database: {name}` in the file of a feed",
        )
    require_names(control, *chosen)
    for_small_data(spark)
    with Workers(lambda: spark) as workers, ProofWriter.opened(spark, workers, control, database) as writer:
        rows = [row for feed in chosen for row in resnapshot_check.prove(spark, control, writer, feed)]
        if source is not None:
            reading = _DatabaseProof(spark, control, database.database, source)
            rows += reading.prove(writer, _published(control, chosen), what)
        else:
            log.warning(
                "%s: the source is not read: `verify:` of the database names no connection to it "
                "(docs/verify.md). Only rows that topics deliver again are checked",
                database.database,
            )
    drifted = [row for row in rows if row.outcome == DRIFTED]
    if drifted:
        raise PublishedDrifts(
            "; ".join(f"{row.feed} {row.table}: {verdicts.summary(row.counts)}" for row in drifted)
            + first_row(spark, DRIFT, "proof_id", [row.id for row in drifted]),
            f"open the page {settings.address(database.proofs(settings))}, or query {DRIFT}: what each row "
            f"is, what it should be, and since which change; {REPAIRS} has the changes that correct it, "
            "which a run of the feed's DAG with the mode `repair` applies",
        )
    return rows


def waits(database: Database, feeds: Mapping[str, Feed], what: str) -> bool:
    """Returns whether there is anything to do. Asks the control store only, as Spark takes long to start."""
    control = control_store(Settings())
    source, chosen = database.verified(feeds)
    unproved = any(resnapshot_check.unproved(control, feed) for feed in chosen)
    if (source is not None and what != REUSE) or unproved:
        return True
    if source is None:
        return False
    published = _published(control, chosen)
    if control.proofs.last_snapshot(database.database) is None:
        return bool(published)
    snapshot = _last_snapshot(control, database.database, source)
    return snapshot is not None and bool(_unproved(control, snapshot, published))


def _published(control: ControlStore, feeds: Iterable[Feed]) -> list[_Table]:
    """Returns the tables of the feeds' last releases.

    Skips a feed whose release a crash left incomplete, until the feed's next run completes it.
    """
    tables = []
    for feed in feeds:
        furthest, release = control.windows.furthest(feed.feed), control.releases.latest(feed.feed)
        if release is None or not release.completed:
            log.info("%s: no release to verify", feed.feed)
            continue
        contracts = control.contracts.of_feed(feed.feed, release=release.id)
        for table in (t.table for t in feed.tables):
            names = TableNames.of(feed.namespace, table)
            if table in contracts and {names.current, names.history} <= release.tables.keys():
                tables.append(_Table(feed, table, contracts[table], release, furthest))
    return tables


def _last_snapshot(control: ControlStore, database: str, source: Verify) -> SnapshotRow | None:
    """Returns the last snapshot, or None if there is none or it is older than `snapshot_ttl`."""
    snapshot = control.proofs.last_snapshot(database)
    if snapshot is None or snapshot.at < datetime.now(UTC) - source.snapshot_ttl:
        return None
    return snapshot


def _unproved(control: ControlStore, snapshot: SnapshotRow, tables: Iterable[_Table]) -> list[_Table]:
    """Returns the snapshot's tables whose proof waits, or was not tried since nothing was released."""
    rows = [row for row in control.proofs.of_database(snapshot.database) if row.snapshot_id == snapshot.id]
    done = {(row.feed, row.table) for row in rows if row.outcome != WAITING}
    return [t for t in tables if (t.feed.feed, t.table) not in done and t.in_source in snapshot.tables]


def _contracts(tables: Sequence[_Table]) -> dict[str, Contract]:
    """Returns one contract for each table: the first feed's, with the columns that only other feeds publish.

    Columns that no feed publishes are not read.
    """
    contracts: dict[str, Contract] = {}
    for table in tables:
        dropped = table.contract.dropped
        kept_columns = tuple(c for c in table.contract.columns if c.name not in dropped)
        known = contracts.setdefault(
            table.in_source, table.contract.model_copy(update={"columns": kept_columns})
        )
        names = {c.name.lower() for c in known.columns}
        more = tuple(c for c in kept_columns if c.name.lower() not in names)
        contracts[table.in_source] = known.model_copy(update={"columns": (*known.columns, *more)})
    return contracts


@dataclass(frozen=True)
class _DatabaseProof:
    spark: SparkSession
    control: ControlStore
    database: str
    source: Verify

    def prove(self, writer: ProofWriter, tables: Sequence[_Table], what: str) -> list[ProofRow]:
        """Proves the tables that wait; if none wait, reads the source and proves all tables.

        The source is also read if all of these still wait but some feeds do not: a paused feed does not keep
        the others from being proved.
        """
        rows = [] if what == FRESH else self._waiting(writer, tables)
        behind = {row.feed for row in rows if row.outcome == WAITING}
        is_stuck = all(row.outcome == WAITING for row in rows) and behind != {
            table.feed.feed for table in tables
        }
        # After the first release of a database, its source is read even for `reuse`.
        is_first = self.control.proofs.last_snapshot(self.database) is None
        if (what == REUSE and not is_first) or not tables or (rows and not is_stuck):
            return rows
        if behind:
            names = ", ".join(sorted(behind))
            log.info("%s: %s still wait; the source is read for the others", self.database, names)
        snapshot = take(self.spark, writer.workers, self.database, self.source, _contracts(tables))
        self.control.proofs.save(snapshot)
        return self._proved(writer, snapshot, tables)

    def _waiting(self, writer: ProofWriter, tables: Sequence[_Table]) -> list[ProofRow]:
        """Proves what waits by the last snapshot."""
        snapshot = _last_snapshot(self.control, self.database, self.source)
        todo = [] if snapshot is None else _unproved(self.control, snapshot, tables)
        if snapshot is None or not todo:
            log.info("%s: no proof is waiting", self.database)
            return []
        return self._proved(writer, snapshot, todo)

    def _proved(self, writer: ProofWriter, snapshot: SnapshotRow, tables: Sequence[_Table]) -> list[ProofRow]:
        proving = _Proving(self.spark, writer, self.source, snapshot)
        return writer.workers.each(proving.table, tables)


@dataclass(frozen=True)
class _Proving:
    spark: SparkSession
    writer: ProofWriter
    source: Verify
    snapshot: SnapshotRow

    def table(self, table: _Table) -> ProofRow:
        log.info(
            "%s: %s: comparing with what was read at %s", table.feed.feed, table.table, self.snapshot.until
        )
        proof = self._proof(table)
        sums = proof.summed()
        counts = dict.fromkeys(COUNTED, 0) | {
            "rows": sums.rows,
            verdicts.EQUAL: sums.equal,
            "buckets": sums.buckets,
            "read_again": len(sums.differing),
        }
        row = self._row(table, counts)
        if sums.differing or sums.apart:
            log.info(
                "%s: %s: %d of %d parts and %d keys are compared row by row",
                table.feed.feed, table.table, len(sums.differing), sums.buckets, sums.apart,
            )  # fmt: skip
            judged = proof.judged(sums)
            for verdict, n in judged.counts.items():
                counts[verdict] += n
            row.outcome = judged.outcome(is_sent(table.furthest, self.snapshot, self.source.grace_period))
            if row.outcome == DRIFTED:
                kernel = drift.Conclude(self.writer.named(row), proof.fence.since)
                tag = release_tag(table.release.id)
                wrong = concluded(proof.explained(judged), self._at(table.names.changes, tag), kernel)
                self.writer.add_drift(row, wrong[drift.DRIFT_ROWS], wrong[drift.REPAIR_ROWS])
        self.writer.add_proof(row)
        return row

    def _row(self, table: _Table, counts: dict[str, int]) -> ProofRow:
        return ProofRow(
            id=f"{self.snapshot.id}.{table.feed.feed}.{table.table}",
            against=SOURCE,
            snapshot_id=self.snapshot.id,
            database=self.snapshot.database,
            table=table.table,
            feed=table.feed.feed,
            release=table.release.id,
            outcome=PROVEN,
            since=self.snapshot.since,
            until=self.snapshot.until,
            since_lsn=self.snapshot.since_lsn,
            until_lsn=self.snapshot.until_lsn,
            counts=counts,
            at=datetime.now(UTC),
        )

    def _proof(self, table: _Table) -> Proof:
        kept, tag = self.snapshot.tables[table.in_source], release_tag(table.release.id)
        read = self._at(kept["name"], kept["snapshot"])
        columns, source = published_rows(table.feed, read, kept["contract"], table.contract)
        for name, why in columns.left_out.items():
            log.warning("%s: %s: %s is not verified: %s", table.feed.feed, table.table, shown([name]), why)
        parts: dict[int, Readable] = {
            READ: source,
            CURRENT: self._at(table.names.current, tag),
            HISTORY: self._at(table.names.history, tag),
        }
        lsns = (None if lsn is None else bytes.fromhex(lsn) for lsn in (
            self.snapshot.since_lsn, self.snapshot.until_lsn))  # fmt: skip
        since = self.snapshot.since - self.source.lag - _SLACK
        fence = Fence(since, self.snapshot.until + _SLACK, *lsns)
        return Proof(parts, columns, fence)

    def _at(self, table: str, at: int | str) -> Stored:
        return Stored.of(self.spark, self.writer.workers, table, at)
