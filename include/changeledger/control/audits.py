"""Verdicts of audits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import Select, select

from changeledger.control.base import Part, now
from changeledger.control.tables.releases import AuditRow
from changeledger.control.tables.windows import BuiltSnapshots
from changeledger.control.windows import add_stage
from changeledger.model.window import Window


class AuditResult(NamedTuple):
    """What one rule found in one table of a window. `violations` counts rows."""

    table: str
    rule: str
    success: bool
    violations: int
    detail: dict[str, Any]


class Audits(Part):
    def save(
        self, feed: str, window: Window, verdicts: Sequence[AuditResult], judged: BuiltSnapshots
    ) -> None:
        """Stores a window's verdicts and the judged snapshots, in place of those of an earlier try."""
        at = now()
        with self._writing(feed) as session:
            add_stage(session, feed, window, "audit", judged)
            session.add_all(
                AuditRow(feed=feed, window_id=window.id, at=at, **verdict._asdict()) for verdict in verdicts
            )

    def of_window(self, feed: str, window_id: str) -> list[AuditRow]:
        return self._all(audits_of(feed, window_id))


def audits_of(feed: str, window_id: str) -> Select[AuditRow]:
    query = select(AuditRow).where(AuditRow.feed == feed, AuditRow.window_id == window_id)
    return query.order_by(AuditRow.table, AuditRow.rule)
