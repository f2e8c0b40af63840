"""Maintenance of the control store: removes abandoned work, and details and results of old windows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

from sqlalchemy import Select, delete, or_, select
from sqlalchemy.orm import Session

from changeledger.control.base import Part, parts
from changeledger.control.newest import Ids, newest_proofs, standing_comparisons
from changeledger.control.tables.feeds import FailureRow
from changeledger.control.tables.releases import AuditRow, ErasureRow, ReleaseRow
from changeledger.control.tables.results import ComparisonRow, ProofRow, SnapshotRow
from changeledger.control.tables.sources import ReadRow
from changeledger.control.tables.windows import StageRow, WindowRow

# Parts of a verdict's detail that may show values: its first row, and why the rule could not be checked.
_SHOW_ROWS: Final = ("first", "error")
_REMOVED: Final = "an error; its message was removed when rows were erased"


class Old(NamedTuple):
    """Ids of results that newer ones have superseded."""

    comparisons: list[str]
    proofs: list[str]
    snapshots: list[str]


class Upkeep(Part):
    def windows_before(self, feed: str, moment: datetime) -> list[WindowRow]:
        """Returns windows opened before the moment, whatever their status, the oldest first."""
        query = select(WindowRow).where(WindowRow.feed == feed, WindowRow.opened_at < moment)
        return self._all(query.order_by(WindowRow.opened_at))

    def branches_of(self, feed: str, windows: Iterable[str]) -> set[str]:
        """Returns the branches on which the stages of these windows have built."""
        wanted, query = set(windows), select(StageRow).where(StageRow.feed == feed)
        return {row.branch for row in self._all(query) if row.window_id in wanted}

    def forget_built(self, feed: str, windows: Iterable[str]) -> None:
        """Forgets what these windows have built, so that it cannot be published. Keeps their verdicts."""
        with self._writing(feed) as session:
            for ids in parts(windows):
                mine = StageRow.feed == feed, StageRow.window_id.in_(ids)
                session.execute(delete(StageRow).where(*mine))

    def forget_details(self, feed: str, windows: Iterable[str]) -> None:
        """Forgets the stages, reads and verdicts of these windows, but keeps the windows and releases."""
        with self._writing(feed) as session:
            for ids in parts(windows):
                for table in (StageRow, AuditRow, ReadRow):
                    session.execute(delete(table).where(table.feed == feed, table.window_id.in_(ids)))

    def passed_windows(self, feed: str, rules: Collection[str]) -> set[str]:
        """Returns the windows whose audit asked only these rules and found no row that fails one.

        Other rules are users' expectations: even passed, they may show values, such as an aggregate or the
        rows that `mostly` allows. A window that is being built again has no audit.
        """
        query = select(AuditRow.window_id).where(AuditRow.feed == feed)
        shows_rows = AuditRow.success.is_(False) | AuditRow.rule.not_in(rules)
        return set(self._all(query)) - set(self._all(query.where(shows_rows)))

    def forget_shown_rows(self, feed: str, *databases: str) -> None:
        """Removes what verdicts of audits and last failures show of rows. Keeps that a rule has failed.

        `databases`: the names under which failures of the database's comparison and proofs are stored.
        """
        shown = [AuditRow.detail[name].as_string().is_not(None) for name in _SHOW_ROWS]
        with self._writing(feed) as session:
            for row in session.scalars(select(AuditRow).where(AuditRow.feed == feed, or_(*shown))):
                error = row.detail.get("error") and _REMOVED
                row.detail = {**row.detail, "first": None, "error": error}
            session.execute(delete(FailureRow).where(FailureRow.feed.in_([feed, *databases])))

    def move_release(
        self, release: ReleaseRow, tables: dict[str, int], table: str, rows: Mapping[str, int]
    ) -> None:
        """Gives the release new snapshots, after rows were erased from its former ones.

        `rows`: numbers of rows left in `current` and `history` of the table.
        """
        with self._writing(release.feed) as session:
            moved = session.get_one(ReleaseRow, (release.feed, release.id))
            by_table = moved.counts.get("tables", {})
            left = {name: rows[name] for name in ("current", "history") if name in rows}
            moved.tables = tables
            moved.counts = {
                **moved.counts,
                "tables": {**by_table, table: {**by_table.get(table, {}), **left}},
            }

    def save_erasure(self, row: ErasureRow) -> None:
        with self._writing(row.feed) as session:
            session.add(row)

    def erasures(self, feed: str, since: datetime | None = None) -> list[ErasureRow]:
        """Returns the feed's erasures, the oldest first. `since`: only those after this moment."""
        query = select(ErasureRow).where(ErasureRow.feed == feed).order_by(ErasureRow.id)
        return self._all(query if since is None else query.where(ErasureRow.at > since))

    def superseded(self, database: str, feed: str, before: datetime) -> Old:
        """Returns the feed's older results, except the last ones of each table and open disagreements."""
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
        """Deletes these results. Delete their findings in the lake first: only these rows lead to them."""
        with self._transaction() as session:
            columns = ComparisonRow.id, ProofRow.id, SnapshotRow.id
            for column, ids in zip(columns, results, strict=True):
                for some in parts(ids):
                    session.execute(delete(column.class_).where(column.in_(some)))


def _old(session: Session, of: Any, before: datetime, kept: Ids | Select[str], **named: str) -> list[str]:
    return list(session.scalars(select(of.id).filter_by(**named).where(of.at < before, of.id.not_in(kept))))
