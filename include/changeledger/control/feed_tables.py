"""The tables that a feed has listed. A table that joins later lacks the records that came before."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from changeledger.control.base import Part
from changeledger.control.tables.feeds import FeedTableRow
from changeledger.control.tables.windows import DONE, WindowRow
from changeledger.model.window import Window

# Earlier than anything in a source: a feed's first window reads from there, whatever its start.
_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)


class FeedTables(Part):
    def of_feed(self, feed: str) -> dict[str, FeedTableRow]:
        """Returns all tables that the feed has ever listed, by name."""
        query = select(FeedTableRow).where(FeedTableRow.feed == feed).order_by(FeedTableRow.table)
        return {row.table: row for row in self._all(query)}

    def lacking(self, feed: str, window: Window | None = None) -> list[FeedTableRow]:
        """Returns the tables that lack records and whose records nobody has declined.

        `window`: leaves out tables whose lacking records this window reads.
        """
        rows = self.of_feed(feed).values()
        lacking = [row for row in rows if row.lacking and row.declined_reason is None]
        return [row for row in lacking if window is None or not reads_again(row, window)]

    def forget(self, feed: str, tables: Collection[str]) -> None:
        if tables:
            rows = FeedTableRow.feed == feed, FeedTableRow.table.in_(tables)
            with self._writing(feed) as session:
                session.execute(delete(FeedTableRow).where(*rows))

    def save(
        self,
        feed: str,
        table: str,
        lacking: int = 0,
        windows: Collection[str] = (),
        first: datetime | None = None,
    ) -> None:
        """Saves a table and the number of records that it lacks, which count as not declined.

        `windows`: ids of the windows that have read these records. `first`: the earliest time of the records.
        """
        query = select(WindowRow).where(WindowRow.feed == feed, WindowRow.status.in_(DONE))
        with self._writing(feed) as session:
            done = list(session.scalars(query)) if windows else []
            read = [row for row in done if row.window_id in windows]
            begins = [_read_from(row, done) for row in read]
            since = min([*begins, *([first] if begins and first is not None else [])], default=None)
            until = max((row.end for row in read), default=None)
            row = FeedTableRow(feed=feed, table=table, lacking=lacking, since=since, until=until)
            row.declined_reason = row.declined_by = None
            session.merge(row)

    def decline(self, feed: str, table: str, reason: str, by: str) -> bool:
        """Records that nobody wants the records that the table lacks. Returns False if it lacks none."""
        with self._transaction() as session:
            row = session.get(FeedTableRow, (feed, table))
            if row is None or not row.lacking:
                return False
            row.declined_reason, row.declined_by = reason, by
            return True


def _read_from(window: WindowRow, done: Iterable[WindowRow]) -> datetime:
    """Returns where the feed ended when the window was opened: it may be long before the window's start."""
    ends = [
        row.end
        for row in done
        if row.opened_at < window.opened_at and row.end <= window.start and not row.request.reads_nothing_new
    ]
    return max(ends, default=_BEGINNING)


def note_read_again(
    session: Session, feed: str, window: Window, *, everything: bool = False
) -> dict[str, int]:
    """Notes that the tables which a released window has read again lack nothing any more.

    `everything`: the window has read its source from the beginning. Returns by table how many changes it
    lacked.
    """
    lacked = {}
    for row in session.scalars(select(FeedTableRow).where(FeedTableRow.feed == feed)):
        if row.lacking and (everything or reads_again(row, window)):
            lacked[row.table] = row.lacking
            row.lacking = 0
    return lacked


def set_lacking(session: Session, feed: str, lacking: Mapping[str, int]) -> None:
    """Sets how many changes the tables lack. Ignores forgotten tables, which will join anew."""
    for table, count in lacking.items():
        row = session.get(FeedTableRow, (feed, table))
        if row is not None:
            row.lacking = count


def reads_again(row: FeedTableRow, window: Window) -> bool:
    """Returns whether the window reads all that the table lacks."""
    chosen = {table.lower() for table in window.request.tables}
    if window.request.reads_nothing_new or (chosen and row.table.lower() not in chosen):
        return False
    return row.since is None or row.until is None or (window.start <= row.since and row.until <= window.end)
