"""What people were told of, from the first time until it is over."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import delete

from changeledger.control.base import Part, insert_if_absent, now
from changeledger.control.tables.notices import NoticeRow


class Notices(Part):
    """The failures of a control store that last."""

    def note(self, subject: str, event: str) -> datetime:
        """Note that the subject has failed; returns since when it does."""
        with self._transaction() as session:
            insert_if_absent(session, NoticeRow, subject=subject, event=event, since=now())
            return session.get_one(NoticeRow, (subject, event)).since

    def recovered(self, subject: str) -> datetime | None:
        """Note that the subject has succeeded. Since when it had failed; None if nobody was told that.

        Of two processes that ask at once, one gets the time.
        """
        with self._transaction() as session:
            gone = delete(NoticeRow).where(NoticeRow.subject == subject).returning(NoticeRow.since)
            return min(session.scalars(gone), default=None)
