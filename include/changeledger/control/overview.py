"""Queries for the page of all feeds: a few rows of each feed, by key, however much the store has."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session

from changeledger.control.base import Part, database_now, grouped
from changeledger.control.sources import STATE_COLUMNS
from changeledger.control.tables.base import LeaseRow
from changeledger.control.tables.feeds import ASKED, FailureRow, FeedTableRow, ResetRow
from changeledger.control.tables.releases import AuditRow, ReleaseRow
from changeledger.control.tables.sources import SourceStateRow
from changeledger.control.tables.windows import StageRow, WindowRow
from changeledger.model.source_state import SourceState


class ReleaseFigures(NamedTuple):
    """A release without its tables.

    `dispositions`: (disposition, reason, records) of records that became no change.
    `tolerated`: (table, rule, violations, reason).
    `in_quarantine`: records in quarantine as of the release.
    """

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
    in_quarantine: int


class FailedRule(NamedTuple):
    """A rule that failed in a window's audit. `says`: the rule in words."""

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
    """What the store has of a feed. `windows` and `releases` are the last ones, the newest first."""

    windows: Sequence[WindowRow]
    releases: Sequence[ReleaseFigures] = ()
    # Releases of these windows that are not among the last ones, as after a backfill.
    earlier: Sequence[ReleaseFigures] = ()
    # Counts of the newest release, by table.
    tables: Mapping[str, Any] = field(default_factory=dict)
    # Number of rules that an audit has judged, by window.
    judged: Mapping[str, int] = field(default_factory=dict)
    failed: Sequence[FailedRule] = ()
    _: KW_ONLY
    states: Sequence[SourceState]
    failure: FailureRow | None
    holder: str | None
    lacking: Sequence[FeedTableRow]
    # A pending reset.
    reset: ResetRow | None


class Overview(Part):
    def rows_of(self, feed: str, last: int) -> FeedRows:
        """Returns the rows of a feed, with its `last` windows and releases."""
        return self.rows_of_feeds([feed], last)[feed]

    def rows_of_feeds(self, feeds: Iterable[str], last: int) -> dict[str, FeedRows]:
        """Returns the rows of several feeds, each with its `last` windows and releases."""
        with self._transaction() as session:
            few = _few_rows(session, list(feeds))
            return {feed: _whole(session, feed, last, rows) for feed, rows in few.items()}

    def one_window(self, feed: str, window: WindowRow) -> FeedRows:
        """Returns the rows of a feed with only this window and its newest release."""
        of_window = ReleaseRow.window_id == window.window_id, ReleaseRow.rolled_back_to.is_(None)
        with self._transaction() as session:
            return replace(
                _few_rows(session, [feed])[feed],
                windows=[window],
                releases=_releases(session, feed, 1, *of_window),
                **_audited(session, feed, [window.window_id]),
            )

    def window_of_run(self, feed: str, run: str) -> str | None:
        """Returns the id of the newest window that this run of Airflow has asked for, or None."""
        of = WindowRow
        query = select(of.window_id).where(of.feed == feed, of.asked["run"].as_string() == run)
        return self._first(query.order_by(of.opened_at.desc()))

    def stage_ends(self, feed: str, windows: Iterable[str]) -> dict[str, dict[str, datetime]]:
        """Returns by window when each of its stages ended, as far as the results of the stages are kept."""
        of = StageRow
        query = select(of.window_id, of.stage, of.at).where(of.feed == feed, of.window_id.in_(list(windows)))
        ends: dict[str, dict[str, datetime]] = {}
        for window, stage, at in self._rows(query):
            ends.setdefault(window, {})[stage] = at
        return ends


def _few_rows(session: Session, feeds: Sequence[str]) -> dict[str, FeedRows]:
    """Returns by feed what one statement reads for all feeds, since each has few rows. Windows: open ones."""
    window, table, reset, lease = WindowRow, FeedTableRow, ResetRow, LeaseRow
    is_open = select(window).where(window.feed.in_(feeds), window.status == "open")
    by_id = session.scalars(is_open.order_by(window.window_id.desc()))
    open_windows = grouped((row.feed, row) for row in by_id)
    lacks = select(table).where(table.feed.in_(feeds), table.lacking > 0, table.declined_reason.is_(None))
    lacking = grouped((row.feed, row) for row in session.scalars(lacks.order_by(table.table)))
    failed = session.scalars(select(FailureRow).where(FailureRow.feed.in_(feeds)))
    failures = {failure.feed: failure for failure in failed}
    asked = session.scalars(select(reset).where(reset.feed.in_(feeds), reset.status == ASKED))
    resets = {row.feed: row for row in asked}
    held = select(lease.feed, lease.holder).where(
        lease.feed.in_(feeds), lease.expires_at > database_now(session)
    )
    holders, states = {row.feed: row.holder for row in session.execute(held)}, _states(session, feeds)
    return {
        feed: FeedRows(
            open_windows.get(feed, ()),
            states=states.get(feed, ()),
            failure=failures.get(feed),
            holder=holders.get(feed),
            lacking=lacking.get(feed, ()),
            reset=resets.get(feed),
        )
        for feed in feeds
    }


def _whole(session: Session, feed: str, last: int, few: FeedRows) -> FeedRows:
    windows, releases = _windows(session, feed, last, few), _releases(session, feed, last)
    # The last audit may be of a much earlier window: windows with nothing new have no audit.
    audited = session.scalar(select(func.max(AuditRow.window_id)).where(AuditRow.feed == feed))
    judged = {row.window_id for row in windows if row.status == "open"} | ({audited} if audited else set())
    return replace(
        few,
        windows=windows,
        releases=releases,
        earlier=_earlier(session, feed, windows, releases),
        tables=_newest_tables(session, feed),
        **_audited(session, feed, judged),
    )


def _windows(session: Session, feed: str, last: int, few: FeedRows) -> list[WindowRow]:
    """Returns the last windows by time, which is how their ids sort.

    Includes open windows that are earlier, and the window that failed last, if it is stored.
    """
    query = select(WindowRow).where(WindowRow.feed == feed).order_by(WindowRow.window_id.desc())
    rows = {row.window_id: row for row in session.scalars(query.limit(last))}
    earlier = [row for row in few.windows if row.window_id not in rows]
    rows |= {row.window_id: row for row in earlier[:last]}
    if few.failure is not None and few.failure.window_id not in rows:
        stored = session.get(WindowRow, (feed, few.failure.window_id))
        rows |= {} if stored is None else {stored.window_id: stored}
    return sorted(rows.values(), key=lambda row: row.window_id, reverse=True)


def _releases(
    session: Session, feed: str, last: int | None, *where: ColumnElement[bool]
) -> list[ReleaseFigures]:
    """Returns the `last` releases, the newest first; None: all."""
    of = ReleaseRow
    columns = (
        of.id, of.window_id, of.status, of.created_at, of.completed_at, of.rolled_back_to, of.reason, of.by,
        of.counts["records"], of.counts["dispositions"], of.counts["tolerated"],
        of.counts["in_quarantine"],
    )  # fmt: skip
    query = select(*columns).where(of.feed == feed, *where).order_by(of.id.desc()).limit(last)
    return [ReleaseFigures(*row) for row in session.execute(query)]


def _earlier(
    session: Session, feed: str, windows: Iterable[WindowRow], releases: Iterable[ReleaseFigures]
) -> list[ReleaseFigures]:
    """Returns the windows' releases that are not among `releases`."""
    known = {release.window_id for release in releases if release.rolled_back_to is None}
    lacking = [row.window_id for row in windows if row.status == "released" and row.window_id not in known]
    of_windows = ReleaseRow.window_id.in_(lacking), ReleaseRow.rolled_back_to.is_(None)
    return _releases(session, feed, None, *of_windows) if lacking else []


def _newest_tables(session: Session, feed: str) -> dict[str, Any]:
    """Returns the counts of the newest release by table.

    A rollback has the counts of the release that it goes back to, but no changes of its own.
    """
    query = select(ReleaseRow.counts["tables"], ReleaseRow.rolled_back_to).where(ReleaseRow.feed == feed)
    newest = session.execute(query.order_by(ReleaseRow.id.desc()).limit(1)).first()
    tables: Mapping[str, Any] = (newest and newest[0]) or {}
    if newest is None or newest[1] is None:
        return dict(tables)
    return {table: {**counts, "changes": {}} for table, counts in tables.items()}


def _states(session: Session, feeds: Sequence[str]) -> dict[str, list[SourceState]]:
    of = SourceStateRow
    query = select(of.feed, *STATE_COLUMNS).where(of.feed.in_(feeds)).order_by(of.source)
    return grouped((feed, SourceState(*state)) for feed, *state in session.execute(query))


def _audited(session: Session, feed: str, windows: Collection[str]) -> dict[str, Any]:
    """Returns `judged` and `failed` of `FeedRows`, for the audits of these windows."""
    of = AuditRow
    mine = of.feed == feed, of.window_id.in_(windows)
    judged = select(of.window_id, func.count()).where(*mine).group_by(of.window_id)
    query = select(of.window_id, of.table, of.rule, of.violations, of.detail)
    query = query.where(*mine, of.success.is_(False))
    rows = session.execute(query.order_by(of.window_id.desc(), of.table, of.rule))
    failed = [
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
    return {"judged": {row[0]: row[1] for row in session.execute(judged)}, "failed": failed}
