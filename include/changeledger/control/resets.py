"""Resets: a feed's next run begins again where its source begins, and its release replaces the tables."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from changeledger.control.base import Part, now
from changeledger.control.tables.feeds import ASKED, PUBLISHED, WITHDRAWN, ResetRow
from changeledger.control.windows import take_back_open


class AskedReset(NamedTuple):
    """What a person has asked of a reset.

    `accept_gap`: the source may have lost records that the feed has read, as after a snapshot that was taken
    into new topics.
    """

    reason: str
    by: str
    accept_gap: bool = False


class Resets(Part):
    def ask(self, feed: str, asked: AskedReset) -> ResetRow:
        """The feed's runs build their tables anew from now on, until one of them is released.

        What other runs have built and not released cannot be published any more. Asked twice in the same way,
        it is one reset; asked otherwise, it takes the place of the one that waits. The caller holds the
        feed's lease.
        """
        with self._writing(feed) as session:
            pending = pending_reset(session, feed)
            if pending is not None:
                if (pending.reason, pending.accept_gap) == (asked.reason, asked.accept_gap):
                    return pending
                _withdraw(pending, asked.by, asked.reason)
            number = session.scalar(select(func.max(ResetRow.id)).where(ResetRow.feed == feed)) or 0
            row = ResetRow(feed=feed, id=number + 1, status=ASKED, asked_at=now(), **asked._asdict())
            session.add(row)
            take_back_open(session, feed)
            return row

    def withdraw(self, feed: str, by: str, reason: str) -> ResetRow | None:
        """The tables go on from what is published; None if no reset waits. The caller holds the lease."""
        with self._writing(feed) as session:
            pending = pending_reset(session, feed)
            if pending is not None:
                _withdraw(pending, by, reason)
                take_back_open(session, feed)
            return pending

    def pending(self, feed: str) -> ResetRow | None:
        with self._transaction() as session:
            return pending_reset(session, feed)

    def of_feed(self, feed: str) -> list[ResetRow]:
        """The oldest first."""
        query = select(ResetRow).where(ResetRow.feed == feed).order_by(ResetRow.id)
        return self._all(query)

    def replaced_releases(self, feed: str) -> set[int]:
        """The releases whose tables a reset has replaced: of each the last one."""
        return {row.release - 1 for row in self.of_feed(feed) if row.release is not None}


def pending_reset(session: Session, feed: str) -> ResetRow | None:
    return session.scalar(select(ResetRow).where(ResetRow.feed == feed, ResetRow.status == ASKED))


def end_reset(reset: ResetRow, release_id: int) -> None:
    """The release has the tables that were built anew."""
    reset.status, reset.release, reset.ended_at = PUBLISHED, release_id, now()


def _withdraw(reset: ResetRow, by: str, reason: str) -> None:
    reset.status, reset.ended_at = WITHDRAWN, now()
    reset.withdrawn_by, reset.withdrawn_reason = by, reason
