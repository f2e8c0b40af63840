"""The results of comparing feeds, and of comparing published rows with the source."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import delete, select

from changeledger.control.base import Store, parts
from changeledger.control.tables.results import ComparisonRow, ProofRow, SnapshotRow


class Old(NamedTuple):
    """Ids of results that newer ones have taken the place of."""

    comparisons: list[str]
    proofs: list[str]
    snapshots: list[str]


class Results(Store):
    """Comparisons, snapshots and proofs of a control store."""

    def save_comparison(self, row: ComparisonRow) -> None:
        """Store it in place of an earlier one of the same id."""
        with self._transaction() as session:
            session.merge(row)

    def comparisons(self, database: str) -> list[ComparisonRow]:
        """Of a database, the oldest first."""
        query = select(ComparisonRow).where(ComparisonRow.database == database)
        with self._transaction() as session:
            return list(session.scalars(query.order_by(ComparisonRow.at, ComparisonRow.id)))

    def last_comparisons(self, database: str) -> dict[tuple[str, str], list[ComparisonRow]]:
        """The last one of each table, by reference and feed."""
        last = {(row.reference, row.feed, row.table): row for row in self.comparisons(database)}
        pairs: dict[tuple[str, str], list[ComparisonRow]] = {}
        for (reference, feed, _), row in last.items():
            pairs.setdefault((reference, feed), []).append(row)
        return pairs

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
        """The feed's results that are older, and not the last ones of their table."""
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
