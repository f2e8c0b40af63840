"""Results of comparing published rows with the source."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import func, select

from changeledger.control.base import Part, grouped
from changeledger.control.newest import newest_proofs
from changeledger.control.tables.results import ProofRow, SnapshotRow
from changeledger.model.database_work import verification_of


class Proven(NamedTuple):
    """The last proof of a table against its source or its topic. `rows`: how many rows it was given."""

    feed: str
    table: str
    against: str
    outcome: str
    at: datetime
    until: datetime
    rows: int


class Proofs(Part):
    def save(self, row: ProofRow | SnapshotRow) -> None:
        """Stores the row in place of one with the same id. Raises LeaseLost as `Comparisons.save` does."""
        with self._writing(verification_of(row.database)) as session:
            session.merge(row)

    def last_snapshot(self, database: str) -> SnapshotRow | None:
        query = select(SnapshotRow).where(SnapshotRow.database == database)
        return self._first(query.order_by(SnapshotRow.at.desc()))

    def of_database(self, database: str) -> list[ProofRow]:
        """Returns all proofs of a database, the oldest first."""
        query = select(ProofRow).where(ProofRow.database == database)
        return self._all(query.order_by(ProofRow.at, ProofRow.id))

    def last(self, database: str, feeds: Collection[str] | None = None) -> dict[str, list[ProofRow]]:
        """Returns the last proofs of each table, against its source and its topic, by feed.

        `feeds`: only these.
        """
        of = ProofRow
        where = () if feeds is None else (of.feed.in_(feeds),)
        query = select(of).where(of.id.in_(newest_proofs([database], *where)))
        return grouped((row.feed, row) for row in self._all(query.order_by(of.feed, of.table, of.against)))

    def last_proven(self, databases: Iterable[str], feed: str = "") -> list[Proven]:
        """Returns the last proofs of all tables, or of one feed's, with what the page of feeds shows."""
        of = ProofRow
        where = (of.feed == feed,) if feed else ()
        rows = func.coalesce(of.counts["rows"].as_integer(), 0)
        query = select(of.feed, of.table, of.against, of.outcome, of.at, of.until, rows)
        proofs = self._rows(query.where(of.id.in_(newest_proofs(databases, *where))))
        return [Proven(*proof) for proof in proofs]
