"""How feeds failed, for `status`: a run can fail before its window is stored. And what people were told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime

from sqlalchemy import delete

from changeledger.control.base import Part, insert_if_absent, now
from changeledger.control.tables.feeds import FailureRow, NoticeRow
from changeledger.model.errors import ChangeledgerError, WorkedOn
from changeledger.model.window import Window
from changeledger.pages.escaping import escaped
from changeledger.pages.redaction import error_text


class Failures(Part):
    def save(self, feed: str, window: Window, stage: str, error: str) -> None:
        """In place of an earlier one of the feed."""
        self._save(feed, window.id, stage, error)

    def save_of_database(self, name: str, error: str) -> None:
        """Of a comparison or a proof, by the `name` of its DAG (`compare_shop`), which no feed can have."""
        self._save(name, "", name.partition("_")[0], error)

    def _save(self, name: str, window_id: str, stage: str, error: str) -> None:
        # It may quote a value of a row, and PostgreSQL has no NUL in its texts.
        shown = escaped(error)
        with self._transaction() as session:
            session.merge(FailureRow(feed=name, window_id=window_id, stage=stage, error=shown, at=now()))

    def of_feed(self, feed: str) -> FailureRow | None:
        return self._get(FailureRow, feed)

    def forget(self, feed: str) -> None:
        with self._transaction() as session:
            session.execute(delete(FailureRow).where(FailureRow.feed == feed))

    def failed_since(self, feed: str, stage: str, since: datetime) -> bool:
        """Has the stage itself saved how it failed, at that time or later?"""
        row = self.of_feed(feed)
        return row is not None and row.stage == stage and row.at >= since


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


@contextmanager
def failure_kept(store: Callable[[], Failures], name: str) -> Iterator[None]:
    """Saves how the work on a database failed, until it ends well. What it reports is no failure, nor that
    another process does it."""
    try:
        yield
    except WorkedOn:
        raise
    except Exception as error:
        is_reported = isinstance(error, ChangeledgerError) and error.reported
        # The work's own error is the one to see.
        with suppress(ChangeledgerError):
            if is_reported:
                store().forget(name)
            else:
                store().save_of_database(name, error_text(error))
        raise
    store().forget(name)
