"""The results of comparing published rows with the source, and which results may go."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Select, delete, select
from sqlalchemy.orm import Session

from changeledger.control.base import parts
from changeledger.control.comparisons import Comparisons
from changeledger.control.newest import Ids, newest_proofs, standing_comparisons
from changeledger.control.tables.results import ComparisonRow, ProofRow, SnapshotRow


class Old(NamedTuple):
    """Ids of results that newer ones have taken the place of."""

    comparisons: list[str]
    proofs: list[str]
    snapshots: list[str]


class Proven(NamedTuple):
    """The last proof of a table against its source or its topic. `rows`: those of a topic."""

    feed: str
    table: str
    against: str
    outcome: str
    at: datetime
    until: datetime
    rows: int


class Results(Comparisons):
    """Snapshots and proofs of a control store, beside its comparisons."""

    def save_snapshot(self, row: SnapshotRow) -> None:
        with self._transaction() as session:
            session.merge(row)

    def last_snapshot(self, database: str) -> SnapshotRow | None:
        """What was read of a database's source last."""
        query = select(SnapshotRow).where(SnapshotRow.database == database)
        with self._transaction() as session:
            return session.scalar(query.order_by(SnapshotRow.at.desc()).limit(1))

    def save_proof(self, row: ProofRow) -> None:
        """Store it in place of an earlier one of the same id."""
        with self._transaction() as session:
            session.merge(row)

    def proofs(self, database: str) -> list[ProofRow]:
        """Of a database, the oldest first."""
        query = select(ProofRow).where(ProofRow.database == database)
        with self._transaction() as session:
            return list(session.scalars(query.order_by(ProofRow.at, ProofRow.id)))

    def last_proofs(self, database: str, feeds: Collection[str] | None = None) -> dict[str, list[ProofRow]]:
        """The last one of each table and of what it was compared with, by feed; of all feeds, or of these."""
        of = ProofRow
        where = () if feeds is None else (of.feed.in_(feeds),)
        query = select(of).where(of.id.in_(newest_proofs([database], *where)))
        last: dict[str, list[ProofRow]] = {}
        with self._transaction() as session:
            for row in session.scalars(query.order_by(of.feed, of.table, of.against)):
                last.setdefault(row.feed, []).append(row)
        return last

    def last_proven(self, databases: Iterable[str], feed: str = "") -> list[Proven]:
        """The last proofs of all tables, or those of a feed, without what a page of feeds does not show."""
        of = ProofRow
        where = (of.feed == feed,) if feed else ()
        rows = of.counts["rows"].as_integer()
        query = select(of.feed, of.table, of.against, of.outcome, of.at, of.until, rows)
        with self._transaction() as session:
            proofs = session.execute(query.where(of.id.in_(newest_proofs(databases, *where))))
            return [
                Proven(feed, table, against, outcome, at, until, int(count or 0))
                for feed, table, against, outcome, at, until, count in proofs
            ]

    def superseded(self, database: str, feed: str, before: datetime) -> Old:
        """The feed's older results, but for the last ones of each table and open disagreements."""
        comparisons, proofs = standing_comparisons([database]), newest_proofs([database])
        snapshots = select(SnapshotRow.id).where(SnapshotRow.database == database)
        snapshot = snapshots.order_by(SnapshotRow.at.desc()).limit(1)
        with self._transaction() as session:
            return Old(
                _old(session, ComparisonRow, before, comparisons, database=database, feed=feed),
                _old(session, ProofRow, before, proofs, database=database, feed=feed),
                _old(session, SnapshotRow, before, snapshot, database=database),
            )

    def forget_results(self, results: Old) -> None:
        """What these have found in the lake goes first: without their rows nobody would look for it."""
        with self._transaction() as session:
            columns = ComparisonRow.id, ProofRow.id, SnapshotRow.id
            for column, ids in zip(columns, results, strict=True):
                for some in parts(ids):
                    session.execute(delete(column.class_).where(column.in_(some)))


def _old(session: Session, of: Any, before: datetime, kept: Ids | Select[str], **named: str) -> list[str]:
    return list(session.scalars(select(of.id).filter_by(**named).where(of.at < before, of.id.not_in(kept))))
