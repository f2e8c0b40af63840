"""The last failures of feeds, for `status`, and the notices of them that people got.

Failures are stored apart from windows, since a run can fail before its window is stored.
"""

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
        """Saves a failure of the feed in place of an earlier one."""
        self._save(feed, window.id, stage, error)

    def save_of_database(self, name: str, error: str) -> None:
        """Saves a failure of a comparison or proof. `name`: that of its DAG, such as `compare_shop`."""
        self._save(name, "", name.partition("_")[0], error)

    def _save(self, name: str, window_id: str, stage: str, error: str) -> None:
        # The error may quote a value of a row, and PostgreSQL's texts cannot have NUL characters.
        shown = escaped(error)
        with self._transaction() as session:
            session.merge(FailureRow(feed=name, window_id=window_id, stage=stage, error=shown, at=now()))

    def of_feed(self, feed: str) -> FailureRow | None:
        return self._get(FailureRow, feed)

    def forget(self, feed: str) -> None:
        with self._transaction() as session:
            session.execute(delete(FailureRow).where(FailureRow.feed == feed))

    def failed_since(self, feed: str, stage: str, since: datetime) -> bool:
        """Returns whether the stage itself has saved a failure at that time or later."""
        row = self.of_feed(feed)
        return row is not None and row.stage == stage and row.at >= since


class Notices(Part):
    """Failures that people were told of and that last."""

    def note(self, subject: str, event: str) -> datetime:
        """Notes that the subject has failed. Returns since when it has been failing."""
        with self._transaction() as session:
            insert_if_absent(session, NoticeRow, subject=subject, event=event, since=now())
            return session.get_one(NoticeRow, (subject, event)).since

    def recovered(self, subject: str) -> datetime | None:
        """Notes that the subject has succeeded. Returns since when it had failed; None if nobody was told.

        If two processes call it at once, only one gets the time.
        """
        with self._transaction() as session:
            gone = delete(NoticeRow).where(NoticeRow.subject == subject).returning(NoticeRow.since)
            return min(session.scalars(gone), default=None)


@contextmanager
def failure_kept(store: Callable[[], Failures], name: str) -> Iterator[None]:
    """Saves a failure of the work on a database; forgets it once the work succeeds.

    Findings that the work reports are no failures, nor is it one if another process does the work.
    """
    try:
        yield
    except WorkedOn:
        raise
    except Exception as error:
        is_reported = isinstance(error, ChangeledgerError) and error.reported
        # An error of saving must not hide the error of the work.
        with suppress(ChangeledgerError):
            if is_reported:
                store().forget(name)
            else:
                store().save_of_database(name, error_text(error))
        raise
    store().forget(name)
