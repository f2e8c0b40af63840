"""Verdicts and releases: what was judged, and what was published."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from changeledger.control.base import Store, insert_if_absent, now
from changeledger.control.contracts import add_contract
from changeledger.control.feed_tables import note_read_again
from changeledger.control.tables.base import Position
from changeledger.control.tables.releases import AuditRow, ReleaseRow
from changeledger.control.tables.windows import BuiltSnapshots, StageRow, WindowRow
from changeledger.control.windows import add_stage, advance, latest_release
from changeledger.model.errors import StageOrderError
from changeledger.model.window import STAGES, Window

IN_ORDER = f"run the stages in order: {', '.join(STAGES)}"


class AuditResult(NamedTuple):
    """What one rule found in one table of a window. `violations` counts rows."""

    table: str
    rule: str
    success: bool
    violations: int
    detail: dict[str, Any]


class Releases(Store):
    """Audits and releases of a control store."""

    def commit_release(
        self,
        feed: str,
        window: Window,
        tables: dict[str, int],
        counts: dict[str, Any],
        position: Position,
    ) -> int:
        """The commit point of a run: release row, contracts, position and the window's status together.

        Done once per window: a second call changes nothing and returns the first one's id. Raises
        StageOrderError unless the audit has judged just these snapshots, built on the newest release, and
        they have passed.
        """
        with self._writing(feed) as session:
            if _release(session, feed, window.id) is None:
                _require_passed(session, feed, window.id, tables)
            fresh = insert_if_absent(
                session,
                ReleaseRow,
                feed=feed,
                id=_next_id(session, feed),
                window_id=window.id,
                status="committed",
                tables=tables,
                counts=counts,
                positions=position,
                created_at=now(),
            )
            if fresh:
                advance(session, feed, window.id, position)
                normalized = session.get(StageRow, (feed, window.id, "normalize"))
                for table, body in ((normalized and normalized.contracts) or {}).items():
                    add_contract(session, feed, table, body, window.id)
                _mark_released(session, feed, window.id)
                note_read_again(session, feed, window)
            release = _release(session, feed, window.id)
            assert release is not None, "inserted or found above"
            return release.id

    def complete_release(self, feed: str, release_id: int) -> None:
        """Every table of the release is moved and tagged. A second call changes nothing."""
        with self._writing(feed) as session:
            release = session.get_one(ReleaseRow, (feed, release_id))
            if not release.completed:
                release.status = "completed"
                release.completed_at = now()

    def incomplete_releases(self, feed: str) -> list[ReleaseRow]:
        """Committed, but a crash came before all tables were moved; the oldest first."""
        query = select(ReleaseRow).where(ReleaseRow.feed == feed, ReleaseRow.status == "committed")
        with self._transaction() as session:
            return list(session.scalars(query.order_by(ReleaseRow.id)))

    def release(self, feed: str, window: Window) -> ReleaseRow | None:
        with self._transaction() as session:
            return _release(session, feed, window.id)

    def latest_release(self, feed: str) -> ReleaseRow | None:
        """The one committed last, whatever its window."""
        with self._transaction() as session:
            return latest_release(session, feed)

    def releases_after(self, feed: str, release_id: int) -> list[ReleaseRow]:
        """Completed ones that were committed later than that one; the oldest first."""
        query = select(ReleaseRow).where(
            ReleaseRow.feed == feed, ReleaseRow.id > release_id, ReleaseRow.status == "completed"
        )
        with self._transaction() as session:
            return list(session.scalars(query.order_by(ReleaseRow.id)))

    def releases_before(self, feed: str, moment: datetime) -> list[ReleaseRow]:
        """Committed before that moment; the newest release of all is not among them."""
        query = select(ReleaseRow).where(ReleaseRow.feed == feed).order_by(ReleaseRow.id)
        with self._transaction() as session:
            return [row for row in list(session.scalars(query))[:-1] if row.created_at < moment]

    def save_audit(
        self, feed: str, window: Window, verdicts: Sequence[AuditResult], judged: BuiltSnapshots
    ) -> None:
        """Store the verdicts of a window's audit with what it has judged, instead of an earlier attempt's."""
        at = now()
        with self._writing(feed) as session:
            add_stage(session, feed, window, "audit", judged)
            session.add_all(
                AuditRow(feed=feed, window_id=window.id, at=at, **verdict._asdict()) for verdict in verdicts
            )

    def audits(self, feed: str, window: Window) -> list[AuditRow]:
        return self.audits_of(feed, window.id)

    def audits_of(self, feed: str, window_id: str) -> list[AuditRow]:
        with self._transaction() as session:
            return _audits(session, feed, window_id)


def _next_id(session: Session, feed: str) -> int:
    """The lease's row is locked: no other run of the feed commits meanwhile."""
    last = session.scalar(select(func.max(ReleaseRow.id)).where(ReleaseRow.feed == feed))
    return (last or 0) + 1


def _release(session: Session, feed: str, window_id: str) -> ReleaseRow | None:
    query = select(ReleaseRow).where(ReleaseRow.feed == feed, ReleaseRow.window_id == window_id)
    return session.scalar(query)


def _require_passed(session: Session, feed: str, window_id: str, tables: dict[str, int]) -> None:
    stored = session.get(WindowRow, (feed, window_id))
    if stored is None:
        raise StageOrderError(f"the window {window_id} of the feed {feed!r} was never opened", IN_ORDER)
    newest = latest_release(session, feed)
    if stored.built_on != (0 if newest is None else newest.id):
        raise StageOrderError(*built_on_another(feed, window_id))
    judged = session.get(StageRow, (feed, window_id, "audit"))
    audits = _audits(session, feed, window_id)
    failed = ", ".join(row.rule for row in audits if not row.success and row.detail["stops"])
    if judged is None or failed:
        raise StageOrderError(
            f"{feed}: the audit of the window {window_id} has not passed: {failed or 'it was not run'}",
            "run the audit, and look at its Data Docs where it fails",
        )
    others = sorted(t for t, snapshot in judged.tables.items() if tables.get(t) != snapshot)
    if others:
        raise StageOrderError(
            f"{feed}: the audit of the window {window_id} has judged other snapshots of {', '.join(others)}",
            "run the audit of the window again: in Airflow clear it with what follows it",
        )


def built_on_another(feed: str, window_id: str) -> tuple[str, str]:
    """Message and remedy for a window whose branches do not stand on main any more."""
    return (
        f"{feed}: since the window {window_id} was built, another was released or the tables were "
        "maintained: what it has built would undo that",
        "run it again from normalize: in Airflow clear normalize with what follows it",
    )


def _audits(session: Session, feed: str, window_id: str) -> list[AuditRow]:
    query = select(AuditRow).where(AuditRow.feed == feed, AuditRow.window_id == window_id)
    return list(session.scalars(query.order_by(AuditRow.table, AuditRow.rule)))


def _mark_released(session: Session, feed: str, window_id: str) -> None:
    session.get_one(WindowRow, (feed, window_id)).status = "released"
