"""The results of comparing feeds, and of comparing published rows with the source."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import delete, select

from changeledger.control.base import Store, parts
from changeledger.control.tables.results import ACCEPTED, DIFFER, ComparisonRow, ProofRow, SnapshotRow


class Old(NamedTuple):
    """Ids of results that newer ones have taken the place of."""

    comparisons: list[str]
    proofs: list[str]
    snapshots: list[str]


class Results(Store):
    """Comparisons, snapshots and proofs of a control store."""

    def save_comparison(self, row: ComparisonRow) -> None:
        """Stores it in place of those that it covers."""
        covered = self.covered(row)
        with self._transaction() as session:
            session.execute(delete(ComparisonRow).where(ComparisonRow.id.in_(covered)))
            session.merge(row)

    def covered(self, row: ComparisonRow) -> list[str]:
        """Ids of the other comparisons whose part of the log `row` has compared again."""
        return [
            other.id
            for other in self.comparisons(row.database)
            if _of_table(other) == _of_table(row) and other.id != row.id and _is_within(other, row)
        ]

    def disagreements(self, database: str) -> list[ComparisonRow]:
        """Comparisons that found too much and that nobody has resolved or accepted, the oldest first."""
        return [row for row in self.comparisons(database) if row.outcome == DIFFER]

    def accept(self, database: str, reason: str, by: str, feed: str = "", table: str = "") -> int:
        """Accepts the open disagreements of a database, or of one feed or table of it; returns how many."""
        accepted = 0
        with self._transaction() as session:
            query = select(ComparisonRow).where(ComparisonRow.database == database)
            for row in session.scalars(query.where(ComparisonRow.outcome == DIFFER)):
                if feed in ("", row.feed) and table.lower() in ("", row.table.lower()):
                    row.outcome, row.accepted_reason, row.accepted_by = ACCEPTED, reason, by
                    accepted += 1
        return accepted

    def comparisons(self, database: str) -> list[ComparisonRow]:
        """Of a database, the oldest first."""
        query = select(ComparisonRow).where(ComparisonRow.database == database)
        with self._transaction() as session:
            return list(session.scalars(query.order_by(ComparisonRow.at, ComparisonRow.id)))

    def last_comparisons(self, database: str) -> dict[tuple[str, str], list[ComparisonRow]]:
        """The last one of each table and its open disagreements, by reference and feed."""
        return last_of(self.comparisons(database))

    def comparisons_of(self, database: str, feeds: Iterable[str]) -> list[ComparisonRow]:
        """Of two feeds with each other, whichever was the reference; the oldest first."""
        pair = list(feeds)
        query = select(ComparisonRow).where(
            ComparisonRow.database == database,
            ComparisonRow.reference.in_(pair),
            ComparisonRow.feed.in_(pair),
        )
        with self._transaction() as session:
            return list(session.scalars(query.order_by(ComparisonRow.at, ComparisonRow.id)))

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

    def last_proofs(self, database: str) -> dict[str, list[ProofRow]]:
        """The last one of each table and of what it was compared with, by feed."""
        last = {(row.feed, row.table, row.against): row for row in self.proofs(database)}
        feeds: dict[str, list[ProofRow]] = {}
        for (feed, *_), row in sorted(last.items()):
            feeds.setdefault(feed, []).append(row)
        return feeds

    def superseded(self, database: str, feed: str, before: datetime) -> Old:
        """The feed's older results, but for the last ones of each table and open disagreements."""
        compared = (row for rows in self.last_comparisons(database).values() for row in rows)
        proved = (row for rows in self.last_proofs(database).values() for row in rows)
        last = {row.id for row in compared} | {row.id for row in proved}
        newest = self.last_snapshot(database)
        last |= set() if newest is None else {newest.id}

        def old(rows: Iterable[ComparisonRow | ProofRow | SnapshotRow]) -> list[str]:
            return [row.id for row in rows if row.at < before and row.id not in last]

        with self._transaction() as session:
            snapshots = list(session.scalars(select(SnapshotRow).where(SnapshotRow.database == database)))
        return Old(
            old(row for row in self.comparisons(database) if row.feed == feed),
            old(row for row in self.proofs(database) if row.feed == feed),
            old(snapshots),
        )

    def forget_results(self, results: Old) -> None:
        """What these have found in the lake goes first: without their rows nobody would look for it."""
        with self._transaction() as session:
            columns = ComparisonRow.id, ProofRow.id, SnapshotRow.id
            for column, ids in zip(columns, results, strict=True):
                for some in parts(ids):
                    session.execute(delete(column.class_).where(column.in_(some)))


def last_of(rows: Iterable[ComparisonRow]) -> dict[tuple[str, str], list[ComparisonRow]]:
    """As `Results.last_comparisons`, of comparisons with the oldest first."""
    rows = list(rows)
    last = {_of_table(row): row.id for row in rows}.values()
    pairs: dict[tuple[str, str], list[ComparisonRow]] = {}
    for row in rows:
        if row.id in last or row.outcome == DIFFER:
            pairs.setdefault((row.reference, row.feed), []).append(row)
    return pairs


def _of_table(row: ComparisonRow) -> tuple[str, str, str]:
    return row.reference, row.feed, row.table


def _is_within(row: ComparisonRow, other: ComparisonRow) -> bool:
    """Is its part of the log a part of the other's? Without LSNs both have compared all that there was."""
    if row.to_lsn is None or other.to_lsn is None:
        return other.to_lsn is None
    return (other.from_lsn or "") <= (row.from_lsn or "") and row.to_lsn <= other.to_lsn
