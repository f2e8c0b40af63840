"""What came of comparing feeds, and of comparing what is published with the source."""

from __future__ import annotations

from sqlalchemy import select

from changeledger.storage.control.base import Store
from changeledger.storage.control.models import ComparisonRow, ProofRow, SnapshotRow


class Results(Store):
    """Comparisons, snapshots and proofs of a control store."""

    def save_comparison(self, row: ComparisonRow) -> None:
        """Keep it in place of an earlier one of the same id."""
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
        """Keep it in place of an earlier one of the same id."""
        with self._transaction() as session:
            session.merge(row)

    def proofs(self, database: str) -> list[ProofRow]:
        """Of a database, the oldest first."""
        query = select(ProofRow).where(ProofRow.database == database)
        with self._transaction() as session:
            return list(session.scalars(query.order_by(ProofRow.at, ProofRow.id)))

    def last_proofs(self, database: str) -> dict[str, list[ProofRow]]:
        """The last one of each table and of what it was held against, by feed."""
        last = {(row.feed, row.table, row.against): row for row in self.proofs(database)}
        feeds: dict[str, list[ProofRow]] = {}
        for (feed, *_), row in sorted(last.items()):
            feeds.setdefault(feed, []).append(row)
        return feeds
