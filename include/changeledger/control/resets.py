"""Resets: a feed's next run reads from its source's beginning, and its release replaces the tables."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from changeledger.control.base import Part, now
from changeledger.control.tables.feeds import ASKED, PUBLISHED, WITHDRAWN, ResetRow
from changeledger.control.windows import take_back_open


class AskedReset(NamedTuple):
    """A reset as a person has asked for it.

    `accept_gap`: the source may have lost records that the feed has read, as after a snapshot into new
    topics.
    """

    reason: str
    by: str
    accept_gap: bool = False


class Resets(Part):
    def ask(self, feed: str, asked: AskedReset) -> ResetRow:
        """Asks for a reset: from now on, the feed's runs rebuild their tables until one of them is released.

        What other runs have built but not released cannot be published any more. Asking again in the same
        way returns the same reset; asking in another way replaces the waiting one. The caller must hold the
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
        """Withdraws the waiting reset, so that runs continue from what is published. None if none waits.

        The caller must hold the feed's lease.
        """
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
        """Returns all resets of the feed, the oldest first."""
        query = select(ResetRow).where(ResetRow.feed == feed).order_by(ResetRow.id)
        return self._all(query)

    def replaced_releases(self, feed: str) -> set[int]:
        """Returns the last release before each reset, whose tables the reset has replaced."""
        return {row.release - 1 for row in self.of_feed(feed) if row.release is not None}


def pending_reset(session: Session, feed: str) -> ResetRow | None:
    return session.scalar(select(ResetRow).where(ResetRow.feed == feed, ResetRow.status == ASKED))


def end_reset(reset: ResetRow, release_id: int) -> None:
    """Ends the reset with the release that has the rebuilt tables."""
    reset.status, reset.release, reset.ended_at = PUBLISHED, release_id, now()


def _withdraw(reset: ResetRow, by: str, reason: str) -> None:
    reset.status, reset.ended_at = WITHDRAWN, now()
    reset.withdrawn_by, reset.withdrawn_reason = by, reason
