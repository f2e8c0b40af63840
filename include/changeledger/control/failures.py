"""How feeds failed, for `status`: a run can fail before its window is stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime

from sqlalchemy import delete

from changeledger.control.base import Store, now
from changeledger.control.tables.failures import FailureRow
from changeledger.model.errors import ChangeledgerError
from changeledger.model.window import Window


class Failures(Store):
    """The last failure of each feed in a control store."""

    def save_failure(self, feed: str, window: Window, stage: str, error: str) -> None:
        """In place of an earlier one of the feed."""
        self._save(feed, window.id, stage, error)

    def save_failure_of_database(self, name: str, error: str) -> None:
        """Of a comparison or a proof, by the `name` of its DAG (`compare_shop`), which no feed can have."""
        self._save(name, "", name.partition("_")[0], error)

    def _save(self, name: str, window_id: str, stage: str, error: str) -> None:
        with self._transaction() as session:
            session.merge(FailureRow(feed=name, window_id=window_id, stage=stage, error=error, at=now()))

    def failure(self, feed: str) -> FailureRow | None:
        with self._transaction() as session:
            return session.get(FailureRow, feed)

    def forget_failure(self, feed: str) -> None:
        with self._transaction() as session:
            session.execute(delete(FailureRow).where(FailureRow.feed == feed))

    def failed_since(self, feed: str, stage: str, since: datetime) -> bool:
        """Has the stage itself saved how it failed, at that time or later?"""
        row = self.failure(feed)
        return row is not None and row.stage == stage and row.at >= since


@contextmanager
def failure_kept(store: Callable[[], Failures], name: str) -> Iterator[None]:
    """Saves how the work on a database failed, until it ends well. What it reports is no failure."""
    try:
        yield
    except Exception as error:
        is_reported = isinstance(error, ChangeledgerError) and error.reported
        # The work's own error is the one to see.
        with suppress(ChangeledgerError):
            if is_reported:
                store().forget_failure(name)
            else:
                store().save_failure_of_database(name, f"{type(error).__name__}: {error}")
        raise
    store().forget_failure(name)
