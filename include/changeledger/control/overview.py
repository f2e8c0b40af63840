"""What a page of all feeds asks: a few rows of each feed, by their keys, whatever the store has collected."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session

from changeledger.control.base import Store, database_now
from changeledger.control.resets import pending_reset
from changeledger.control.tables.base import LeaseRow
from changeledger.control.tables.contracts import ContractRow
from changeledger.control.tables.failures import FailureRow
from changeledger.control.tables.feed_tables import FeedTableRow
from changeledger.control.tables.releases import AuditRow, ReleaseRow
from changeledger.control.tables.resets import ResetRow
from changeledger.control.tables.sources import ReadRow, SourceStateRow
from changeledger.control.tables.windows import StageRow, WindowRow
from changeledger.model.contract import Contract
from changeledger.model.source_state import SourceState
from changeledger.model.window import SourceRead


class ReleaseFigures(NamedTuple):
    """A release without its tables. `dispositions`: (disposition, reason, records) of what became no change;
    `tolerated`: (table, rule, violations, reason)."""

    id: int
    window_id: str
    status: str
    created_at: datetime
    completed_at: datetime | None
    rolled_back_to: int | None
    reason: str | None
    by: str | None
    records: int | None
    dispositions: Sequence[Sequence[Any]] | None
    tolerated: Sequence[Sequence[Any]] | None


class FailedRule(NamedTuple):
    """A rule that a window's audit found violated. `says`: the rule in words."""

    window_id: str
    table: str
    rule: str
    violations: int
    stops: bool
    severity: str
    says: str
    tolerated: str | None
    error: str | None


@dataclass(frozen=True)
class FeedRows:
    """What the store has of a feed. Windows and releases: the last ones, the newest first."""

    windows: Sequence[WindowRow]
    releases: Sequence[ReleaseFigures]
    # Of the newest release, by table.
    tables: dict[str, Any]
    states: Sequence[SourceState]
    failure: FailureRow | None
    holder: str | None
    lacking: Sequence[FeedTableRow]
    # How many rules the audits of windows have judged.
    judged: dict[str, int]
    failed: Sequence[FailedRule]
    # One that waits.
    reset: ResetRow | None = None


class Overview(Store):
    """Reads of a control store for pages."""

    def rows_of(self, feed: str, last: int) -> FeedRows:
        """Of a feed, with its `last` windows and releases."""
        with self._transaction() as session:
            windows = _windows(session, feed, last)
            judged = [row.window_id for row in windows[:1]]
            judged += [row.window_id for row in windows[1:] if row.status == "open"]
            rows = _rows(session, feed, windows, judged)
            return replace(
                rows, releases=_releases(session, feed, last), tables=_newest_tables(session, feed)
            )

    def one_window(self, feed: str, window: WindowRow) -> FeedRows:
        """Of a feed, with this window and its newest release alone."""
        ids = [window.window_id]
        of_window = ReleaseRow.window_id == window.window_id, ReleaseRow.rolled_back_to.is_(None)
        with self._transaction() as session:
            return replace(
                _rows(session, feed, [window], ids),
                releases=_releases(session, feed, 1, *of_window),
            )

    def window_of_run(self, feed: str, run: str) -> str | None:
        """The id of the window that Airflow's run has asked for, newest first."""
        of = WindowRow
        query = select(of.window_id).where(of.feed == feed, of.asked["run"].as_string() == run)
        with self._transaction() as session:
            return session.scalar(query.order_by(of.opened_at.desc()).limit(1))

    def reads_of(self, feed: str, window_id: str) -> list[SourceRead]:
        """What the window has read, by source; where more was asked than received first."""
        of = ReadRow
        columns = of.source, of.asked, of.received, of.before, of.problem
        query = select(*columns).where(of.feed == feed, of.window_id == window_id)
        with self._transaction() as session:
            reads = [SourceRead(*row) for row in session.execute(query.order_by(of.source))]
        return sorted(reads, key=lambda read: read.problem is None)

    def stage_ends(self, feed: str, windows: Iterable[str]) -> dict[str, dict[str, datetime]]:
        """By window, when each of its stages has ended, of those whose work is kept."""
        of = StageRow
        query = select(of.window_id, of.stage, of.at).where(of.feed == feed, of.window_id.in_(list(windows)))
        ends: dict[str, dict[str, datetime]] = {}
        with self._transaction() as session:
            for window, stage, at in session.execute(query):
                ends.setdefault(window, {})[stage] = at
        return ends

    def table_contracts(self, feed: str, tables: Iterable[str]) -> dict[str, Contract]:
        """The contracts of these tables as the newest release has them."""
        of = ContractRow
        query = select(of.table, of.body).where(of.feed == feed, of.table.in_(list(tables)))
        with self._transaction() as session:
            bodies = {row.table: row.body for row in session.execute(query.order_by(of.version))}
        return {table: Contract.model_validate(body) for table, body in bodies.items()}


def _windows(session: Session, feed: str, last: int) -> list[WindowRow]:
    """By time, as their ids begin; with those that are open though others came later."""
    of_feed = select(WindowRow).where(WindowRow.feed == feed)
    rows = {
        row.window_id: row
        for row in session.scalars(of_feed.order_by(WindowRow.window_id.desc()).limit(last))
    }
    if rows:
        left = of_feed.where(WindowRow.status == "open", WindowRow.window_id < min(rows))
        latest = left.order_by(WindowRow.window_id.desc()).limit(last)
        rows |= {row.window_id: row for row in session.scalars(latest)}
    return sorted(rows.values(), key=lambda row: row.window_id, reverse=True)


def _rows(session: Session, feed: str, windows: Sequence[WindowRow], judged: Sequence[str]) -> FeedRows:
    """All but its releases, with the audits of the windows `judged`."""
    lease = session.get(LeaseRow, feed)
    is_held = lease is not None and lease.expires_at > database_now(session)
    return FeedRows(
        windows,
        (),
        {},
        _states(session, feed),
        session.get(FailureRow, feed),
        lease.holder if lease is not None and is_held else None,
        _lacking(session, feed),
        _judged(session, feed, judged),
        _failed(session, feed, judged),
        pending_reset(session, feed),
    )


def _releases(session: Session, feed: str, last: int, *where: ColumnElement[bool]) -> list[ReleaseFigures]:
    of = ReleaseRow
    columns = (
        of.id, of.window_id, of.status, of.created_at, of.completed_at, of.rolled_back_to, of.reason, of.by,
        of.counts["records"], of.counts["dispositions"], of.counts["tolerated"],
    )  # fmt: skip
    query = select(*columns).where(of.feed == feed, *where).order_by(of.id.desc()).limit(last)
    return [ReleaseFigures(*row) for row in session.execute(query)]


def _newest_tables(session: Session, feed: str) -> dict[str, Any]:
    query = select(ReleaseRow.counts["tables"]).where(ReleaseRow.feed == feed)
    return session.scalar(query.order_by(ReleaseRow.id.desc()).limit(1)) or {}


def _states(session: Session, feed: str) -> list[SourceState]:
    of = SourceStateRow
    columns = of.source, of.read, of.end, of.at, of.behind, of.since, of.newest, of.why
    query = select(*columns).where(of.feed == feed).order_by(of.source)
    return [SourceState(*row) for row in session.execute(query)]


def _lacking(session: Session, feed: str) -> list[FeedTableRow]:
    of = FeedTableRow
    query = select(of).where(of.feed == feed, of.lacking > 0, of.declined_reason.is_(None))
    return list(session.scalars(query.order_by(of.table)))


def _judged(session: Session, feed: str, windows: Sequence[str]) -> dict[str, int]:
    of = AuditRow
    query = select(of.window_id, func.count()).where(of.feed == feed, of.window_id.in_(windows))
    return {row[0]: row[1] for row in session.execute(query.group_by(of.window_id))}


def _failed(session: Session, feed: str, windows: Sequence[str]) -> list[FailedRule]:
    of = AuditRow
    query = select(of.window_id, of.table, of.rule, of.violations, of.detail)
    query = query.where(of.feed == feed, of.window_id.in_(windows), of.success.is_(False))
    rows = session.execute(query.order_by(of.window_id.desc(), of.table, of.rule))
    return [
        FailedRule(
            window,
            table,
            rule,
            violations,
            bool(detail["stops"]),
            detail.get("severity", "error"),
            detail.get("says", ""),
            detail.get("tolerated"),
            detail.get("error"),
        )
        for window, table, rule, violations, detail in rows
    ]
