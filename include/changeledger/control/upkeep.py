"""What maintenance keeps and removes: windows that nobody continues with, and the details of old ones."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from sqlalchemy import delete, select

from changeledger.control.base import Store, parts
from changeledger.control.tables.releases import AuditRow, ErasureRow, ReleaseRow
from changeledger.control.tables.sources import ReadRow
from changeledger.control.tables.windows import StageRow, WindowRow


class Upkeep(Store):
    """Upkeep of a control store."""

    def feeds(self) -> list[str]:
        """Those that have ever opened a window, by name."""
        with self._transaction() as session:
            return sorted(session.scalars(select(WindowRow.feed).distinct()))

    def windows_before(self, feed: str, moment: datetime) -> list[WindowRow]:
        """Opened before that moment, whatever became of them; the oldest first."""
        query = select(WindowRow).where(WindowRow.feed == feed, WindowRow.opened_at < moment)
        with self._transaction() as session:
            return list(session.scalars(query.order_by(WindowRow.opened_at)))

    def branches_of(self, feed: str, windows: Iterable[str]) -> set[str]:
        """The branches that the stages of these windows have left their work on."""
        query = select(StageRow).where(StageRow.feed == feed)
        with self._transaction() as session:
            wanted = set(windows)
            return {row.branch for row in session.scalars(query) if row.window_id in wanted}

    def forget_built(self, feed: str, windows: Iterable[str]) -> None:
        """What these windows have built is gone: it cannot be published. Their verdicts stay."""
        with self._writing(feed) as session:
            for ids in parts(windows):
                mine = StageRow.feed == feed, StageRow.window_id.in_(ids)
                session.execute(delete(StageRow).where(*mine))

    def forget_details(self, feed: str, windows: Iterable[str]) -> None:
        """The stages, reads and verdicts of these windows; that they were released is kept."""
        with self._writing(feed) as session:
            for ids in parts(windows):
                for table in (StageRow, AuditRow, ReadRow):
                    session.execute(delete(table).where(table.feed == feed, table.window_id.in_(ids)))

    def violated_windows(self, feed: str) -> list[str]:
        """The windows whose audit has found rows that fail a rule."""
        query = select(AuditRow.window_id).where(AuditRow.feed == feed, AuditRow.success.is_(False))
        with self._transaction() as session:
            return sorted(set(session.scalars(query)))

    def move_release(self, feed: str, release_id: int, tables: dict[str, int]) -> None:
        """The release has these snapshots now: rows were erased from those that it had."""
        with self._transaction() as session:
            session.get_one(ReleaseRow, (feed, release_id)).tables = tables

    def save_erasure(self, row: ErasureRow) -> None:
        with self._writing(row.feed) as session:
            session.add(row)

    def erasures(self, feed: str) -> list[ErasureRow]:
        """The oldest first."""
        query = select(ErasureRow).where(ErasureRow.feed == feed).order_by(ErasureRow.id)
        with self._transaction() as session:
            return list(session.scalars(query))
