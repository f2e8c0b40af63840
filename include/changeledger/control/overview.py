"""What a page of all feeds asks: a few rows of each feed, by their keys, whatever the store has collected."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session

from changeledger.control.base import Part, database_now
from changeledger.control.tables.base import LeaseRow
from changeledger.control.tables.feeds import ASKED, FailureRow, FeedTableRow, ResetRow
from changeledger.control.tables.releases import AuditRow, ReleaseRow
from changeledger.control.tables.sources import SourceStateRow
from changeledger.control.tables.windows import StageRow, WindowRow
from changeledger.model.source_state import SourceState


class ReleaseFigures(NamedTuple):
    """A release without its tables. `dispositions`: (disposition, reason, records) of what became no change;
    `tolerated`: (table, rule, violations, reason); `in_quarantine`: all records that are there with it, None
    for a release from before 0.2.0."""

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
    in_quarantine: int | None


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


class Overview(Part):
    def rows_of(self, feed: str, last: int) -> FeedRows:
        """Of a feed, with its `last` windows and releases."""
        return self.rows_of_feeds([feed], last)[feed]

    def rows_of_feeds(self, feeds: Iterable[str], last: int) -> dict[str, FeedRows]:
        """The same of several feeds."""
        names = list(feeds)
        with self._transaction() as session:
            few = _few_rows(session, names)
            return {name: _whole(session, name, last, few) for name in names}

    def one_window(self, feed: str, window: WindowRow) -> FeedRows:
        """Of a feed, with this window and its newest release alone."""
        ids = [window.window_id]
        of_window = ReleaseRow.window_id == window.window_id, ReleaseRow.rolled_back_to.is_(None)
        with self._transaction() as session:
            return replace(
                _rows(session, feed, [window], ids, _few_rows(session, [feed])),
                releases=_releases(session, feed, 1, *of_window),
            )

    def window_of_run(self, feed: str, run: str) -> str | None:
        """The id of the window that Airflow's run has asked for, newest first."""
        of = WindowRow
        query = select(of.window_id).where(of.feed == feed, of.asked["run"].as_string() == run)
        with self._transaction() as session:
            return session.scalar(query.order_by(of.opened_at.desc()).limit(1))

    def stage_ends(self, feed: str, windows: Iterable[str]) -> dict[str, dict[str, datetime]]:
        """By window, when each of its stages has ended, of those whose work is kept."""
        of = StageRow
        query = select(of.window_id, of.stage, of.at).where(of.feed == feed, of.window_id.in_(list(windows)))
        ends: dict[str, dict[str, datetime]] = {}
        with self._transaction() as session:
            for window, stage, at in session.execute(query):
                ends.setdefault(window, {})[stage] = at
        return ends


class _FewRows(NamedTuple):
    """By feed: what has a few rows of each, which one statement reads for all of them."""

    open_windows: Mapping[str, Sequence[WindowRow]]
    states: Mapping[str, Sequence[SourceState]]
    failures: Mapping[str, FailureRow]
    holders: Mapping[str, str]
    lacking: Mapping[str, Sequence[FeedTableRow]]
    resets: Mapping[str, ResetRow]


def _few_rows(session: Session, feeds: Sequence[str]) -> _FewRows:
    open_windows: dict[str, list[WindowRow]] = {}
    lacking: dict[str, list[FeedTableRow]] = {}
    window, table, reset, lease = WindowRow, FeedTableRow, ResetRow, LeaseRow
    is_open = select(window).where(window.feed.in_(feeds), window.status == "open")
    for row in session.scalars(is_open.order_by(window.window_id.desc())):
        open_windows.setdefault(row.feed, []).append(row)
    lacks = select(table).where(table.feed.in_(feeds), table.lacking > 0, table.declined_reason.is_(None))
    for state in session.scalars(lacks.order_by(table.table)):
        lacking.setdefault(state.feed, []).append(state)
    failures = session.scalars(select(FailureRow).where(FailureRow.feed.in_(feeds)))
    asked = session.scalars(select(reset).where(reset.feed.in_(feeds), reset.status == ASKED))
    held = select(lease.feed, lease.holder).where(
        lease.feed.in_(feeds), lease.expires_at > database_now(session)
    )
    return _FewRows(
        open_windows,
        _states(session, feeds),
        {failure.feed: failure for failure in failures},
        {row.feed: row.holder for row in session.execute(held)},
        lacking,
        {row.feed: row for row in asked},
    )


def _whole(session: Session, feed: str, last: int, few: _FewRows) -> FeedRows:
    windows = _windows(session, feed, last, few)
    # The last audit is that of the window before, while a run works on the newest one.
    judged = [row.window_id for row in windows[:2]]
    judged += [row.window_id for row in windows[2:] if row.status == "open"]
    rows = _rows(session, feed, windows, judged, few)
    return replace(rows, releases=_releases(session, feed, last), tables=_newest_tables(session, feed))


def _windows(session: Session, feed: str, last: int, few: _FewRows) -> list[WindowRow]:
    """By time, as their ids begin; with those that are open though others came later, and the one that has
    failed last, if it is stored."""
    still_open, failure = few.open_windows.get(feed, ()), few.failures.get(feed)
    query = select(WindowRow).where(WindowRow.feed == feed).order_by(WindowRow.window_id.desc())
    rows = {row.window_id: row for row in session.scalars(query.limit(last))}
    earlier = [row for row in still_open if row.window_id not in rows]
    rows |= {row.window_id: row for row in earlier[:last]}
    if failure is not None and failure.window_id not in rows:
        stored = session.get(WindowRow, (feed, failure.window_id))
        rows |= {} if stored is None else {stored.window_id: stored}
    return sorted(rows.values(), key=lambda row: row.window_id, reverse=True)


def _rows(
    session: Session, feed: str, windows: Sequence[WindowRow], judged: Sequence[str], few: _FewRows
) -> FeedRows:
    """All but its releases, with the audits of the windows `judged`."""
    return FeedRows(
        windows,
        (),
        {},
        few.states.get(feed, ()),
        few.failures.get(feed),
        few.holders.get(feed),
        few.lacking.get(feed, ()),
        _judged(session, feed, judged),
        _failed(session, feed, judged),
        few.resets.get(feed),
    )


def _releases(session: Session, feed: str, last: int, *where: ColumnElement[bool]) -> list[ReleaseFigures]:
    of = ReleaseRow
    columns = (
        of.id, of.window_id, of.status, of.created_at, of.completed_at, of.rolled_back_to, of.reason, of.by,
        of.counts["records"], of.counts["dispositions"], of.counts["tolerated"],
        of.counts["in_quarantine"],
    )  # fmt: skip
    query = select(*columns).where(of.feed == feed, *where).order_by(of.id.desc()).limit(last)
    return [ReleaseFigures(*row) for row in session.execute(query)]


def _newest_tables(session: Session, feed: str) -> dict[str, Any]:
    query = select(ReleaseRow.counts["tables"]).where(ReleaseRow.feed == feed)
    return session.scalar(query.order_by(ReleaseRow.id.desc()).limit(1)) or {}


def _states(session: Session, feeds: Sequence[str]) -> dict[str, list[SourceState]]:
    of = SourceStateRow
    columns = of.feed, of.source, of.read, of.end, of.at, of.behind, of.since, of.newest, of.why
    states: dict[str, list[SourceState]] = {}
    for row in session.execute(select(*columns).where(of.feed.in_(feeds)).order_by(of.source)):
        states.setdefault(row[0], []).append(SourceState(*row[1:]))
    return states


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
