"""How feeds failed, for `status`: a run can fail before its window is stored."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import delete

from changeledger.control.base import Store, now
from changeledger.control.tables.failures import FailureRow
from changeledger.model.window import Window


class Failures(Store):
    """The last failure of each feed in a control store."""

    def save_failure(self, feed: str, window: Window, stage: str, error: str) -> None:
        """In place of an earlier one of the feed."""
        with self._transaction() as session:
            session.merge(FailureRow(feed=feed, window_id=window.id, stage=stage, error=error, at=now()))

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
