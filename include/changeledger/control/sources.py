"""What windows have read of their sources, the sources' states, and marks by which they are recognized."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from datetime import datetime
from typing import Any, Final, NamedTuple

from sqlalchemy import and_, delete, func, or_, select
from sqlalchemy.orm import Session

from changeledger.control.base import Part
from changeledger.control.tables.releases import ReleaseRow
from changeledger.control.tables.sources import ReadRow, SourceMarkRow, SourceStateRow
from changeledger.control.tables.windows import TAKEN_BACK, WindowRow
from changeledger.model.source_state import SourceState
from changeledger.model.window import SourceRead, Window, partition_name

# Part of the problem of a partition in which compaction may have removed records.
COMPACTED: Final = " compacted: "
# In the counts of a release: the marks of the sources that the feed has read up to it, and reads no more.
LEFT_MARKS: Final = "left_marks"
# Separates the id of a window that starts over from the source of its mark. No name contains it.
_OF = "\x1e"
# The columns of a `SourceState`, in the order of its fields.
STATE_COLUMNS: Final = tuple(getattr(SourceStateRow, field.name) for field in fields(SourceState))


class SourceMark(NamedTuple):
    """See `SourceMarkRow`."""

    identity: str
    place: int
    fingerprint: str | None


class ReadsInAll(NamedTuple):
    """What several windows have read. `received`: raw records. `wrong`: reads that lacked some records."""

    windows: frozenset[str]
    received: int
    wrong: list[ReadRow]


class Sources(Part):
    def save_reads(self, feed: str, window: Window, reads: Iterable[SourceRead]) -> None:
        """Stores what the window has read, in place of an earlier try's reads."""
        mine = ReadRow.feed == feed, ReadRow.window_id == window.id
        with self._writing(feed) as session:
            session.execute(delete(ReadRow).where(*mine))
            session.add_all(ReadRow(feed=feed, window_id=window.id, **read._asdict()) for read in reads)

    def reads(self, feed: str, window_id: str) -> list[SourceRead]:
        """Returns what the window has read, in the order of sources."""
        of = ReadRow
        columns = of.source, of.asked, of.received, of.before, of.problem
        query = select(*columns).where(of.feed == feed, of.window_id == window_id)
        return [SourceRead(*row) for row in self._rows(query.order_by(of.source))]

    def compacted_up_to(self, feed: str) -> dict[str, int]:
        """Returns, by partition, to which offset open windows lack records that compaction may have removed.

        The topic will not have these records again, even if it is no longer compacted.
        """
        query = (
            select(ReadRow.source, WindowRow.to_position)
            .join(WindowRow, and_(WindowRow.feed == ReadRow.feed, WindowRow.window_id == ReadRow.window_id))
            .where(ReadRow.feed == feed, WindowRow.status == "open", ReadRow.problem.contains(COMPACTED))
        )
        reached: dict[str, int] = {}
        for source, to_position in self._rows(query):
            ends = {
                partition_name(t, number): end
                for t, of_topic in to_position.items()
                for number, end in of_topic.items()
            }
            reached[source] = max(ends.get(source, 0), reached.get(source, 0))
        return reached

    def reads_since(self, feed: str, moment: datetime) -> ReadsInAll:
        """Sums the reads of windows opened since the moment, except those that were taken back."""
        windows = select(WindowRow.window_id).where(
            WindowRow.feed == feed, WindowRow.opened_at >= moment, WindowRow.status != TAKEN_BACK
        )
        of_feed = ReadRow.feed == feed, ReadRow.window_id.in_(windows)
        is_wrong = or_(ReadRow.problem.is_not(None), ReadRow.before > 0)
        wrong = select(ReadRow).where(*of_feed, is_wrong).order_by(ReadRow.window_id, ReadRow.source)
        with self._transaction() as session:
            received = session.scalar(select(func.sum(ReadRow.received)).where(*of_feed))
            return ReadsInAll(
                frozenset(session.scalars(windows)), int(received or 0), list(session.scalars(wrong))
            )

    def states(self, feed: str) -> dict[str, SourceState]:
        """Returns the state in which extract has last seen each source, by name."""
        query = select(*STATE_COLUMNS).where(SourceStateRow.feed == feed).order_by(SourceStateRow.source)
        return {row.source: SourceState(*row) for row in self._rows(query)}

    def save_states(self, feed: str, states: Iterable[SourceState]) -> None:
        with self._writing(feed) as session:
            for state in states:
                session.merge(SourceStateRow(feed=feed, **asdict(state)))

    def marks(self, feed: str) -> dict[str, SourceMark]:
        with self._transaction() as session:
            return marks_of(session, feed)

    def save_marks(self, feed: str, marks: Mapping[str, SourceMark]) -> None:
        """Stores the marks, unless a source has a further one: a past window does not move it back."""
        with self._writing(feed) as session:
            for source, mark in marks.items():
                known = session.get(SourceMarkRow, (feed, source))
                if known is None or known.place <= mark.place:
                    session.merge(SourceMarkRow(feed=feed, source=source, **mark._asdict()))

    def save_marks_of_reset(self, feed: str, window: Window, marks: Mapping[str, SourceMark]) -> None:
        """Stores the marks of a window that starts over, in place of those of an earlier attempt.

        They count once the window is released. Until then the marks of what is published count, because the
        reset may be withdrawn.
        """
        begin = f"{window.id}{_OF}"
        mine = SourceMarkRow.feed == feed, SourceMarkRow.source.startswith(begin, autoescape=True)
        with self._writing(feed) as session:
            session.execute(delete(SourceMarkRow).where(*mine))
            session.add_all(
                SourceMarkRow(feed=feed, source=begin + source, **mark._asdict())
                for source, mark in marks.items()
            )


def marks_of(session: Session, feed: str) -> dict[str, SourceMark]:
    return {source: mark for source, mark in _all_marks(session, feed).items() if _OF not in source}


def marks_of_reset(session: Session, feed: str, window_id: str) -> dict[str, SourceMark]:
    """Returns the marks of the sources that a window which starts over has read."""
    begin = f"{window_id}{_OF}"
    marks = _all_marks(session, feed).items()
    return {source.removeprefix(begin): mark for source, mark in marks if source.startswith(begin)}


def _all_marks(session: Session, feed: str) -> dict[str, SourceMark]:
    rows = session.scalars(select(SourceMarkRow).where(SourceMarkRow.feed == feed))
    return {row.source: SourceMark(row.identity, row.place, row.fingerprint) for row in rows}


def exchange_marks(session: Session, release: ReleaseRow, marks: Mapping[str, Any]) -> None:
    """Replaces the feed's marks: from this release on, the feed reads other sources.

    `marks`: the new marks, as far as they are known. The release keeps the former ones (`LEFT_MARKS`).
    """
    feed = release.feed
    left = {source: [*mark] for source, mark in marks_of(session, feed).items()}
    release.counts = {**release.counts, LEFT_MARKS: left}
    session.execute(delete(SourceMarkRow).where(SourceMarkRow.feed == feed))
    session.add_all(
        SourceMarkRow(feed=feed, source=source, **SourceMark(*mark)._asdict())
        for source, mark in marks.items()
    )
