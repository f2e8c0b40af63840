"""The windows of a feed: what became of each, and its records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from changeledger.control import WindowRow
from changeledger.control.overview import FailedRule, FeedRows, ReleaseFigures
from changeledger.model import change
from changeledger.model.window import STAGES, times_of

RELEASED: Final = "released"
EMPTY: Final = "empty"
FAILED: Final = "failed"
RUNNING: Final = "running"
# Neither released nor failed: a dry run, or a run whose next task has not begun.
OPEN: Final = "open"
TAKEN_BACK: Final = "taken back"


@dataclass(frozen=True)
class WindowState:
    """A window. `outcomes`: records by disposition, if it is released. `records`: the number of records."""

    id: str
    start: datetime
    end: datetime
    opened_at: datetime
    outcome: str
    # What was requested: `incremental`, `window`, `replay` or `repair`, and for which tables.
    mode: str
    tables: Sequence[str] = ()
    is_dry_run: bool = False
    # Airflow's id of the run; empty if a job was started by hand.
    run: str = ""
    release: int | None = None
    completed_at: datetime | None = None
    records: int | None = None
    outcomes: Mapping[str, int] | None = None
    stopping: Sequence[FailedRule] = ()
    # A later run has released its records, so nothing is left to do for it.
    is_over: bool = False
    # False if it failed before it was stored: then only its time and the failure are known.
    is_stored: bool = True

    @property
    def quarantined(self) -> int:
        return (self.outcomes or {}).get(change.QUARANTINED, 0)


def last_stored(windows: Iterable[WindowState]) -> WindowState | None:
    """Returns the newest window that was stored. `windows`: newest first."""
    return next((window for window in windows if window.is_stored), None)


def failed_of(rows: FeedRows, window: WindowState | None) -> list[FailedRule]:
    """Returns the failed rules of one of the newest windows."""
    return [rule for rule in rows.failed if window is not None and rule.window_id == window.id]


def window_states(rows: FeedRows) -> list[WindowState]:
    """Returns the windows, newest first."""
    newest_last = reversed((*rows.releases, *rows.earlier))
    releases = {release.window_id: release for release in newest_last if release.rolled_back_to is None}
    stops: dict[str, list[FailedRule]] = {}
    for rule in rows.failed:
        if rule.stops:
            stops.setdefault(rule.window_id, []).append(rule)
    reached = reached_of(rows.windows)
    newest = max((release.created_at for release in rows.releases), default=None)
    stored = [
        _state(window, releases.get(window.window_id), stops.get(window.window_id, ()), rows, reached, newest)
        for window in rows.windows
    ]
    # By time, with which the ids begin.
    return sorted((*stored, *_not_stored(rows)), key=lambda state: state.id, reverse=True)


def _not_stored(rows: FeedRows) -> Iterator[WindowState]:
    """Yields the window that failed last, if it failed before it was stored: `rows` has it otherwise."""
    failure = rows.failure
    if failure is None or any(window.window_id == failure.window_id for window in rows.windows):
        return
    times = times_of(failure.window_id)
    if times is not None:
        yield WindowState(failure.window_id, *times, failure.at, FAILED, "", is_stored=False)


def _state(  # noqa: PLR0913, PLR0917 - what is known of one
    window: WindowRow,
    release: ReleaseFigures | None,
    stopping: Sequence[FailedRule],
    rows: FeedRows,
    reached: datetime | None,
    newest: datetime | None,
) -> WindowState:
    request = window.request
    outcomes = None if release is None else outcomes_of(release)
    return WindowState(
        window.window_id,
        window.start,
        window.end,
        window.opened_at,
        _outcome(window, stopping, rows),
        request.mode,
        request.tables,
        request.dry_run,
        request.run,
        None if release is None else release.id,
        None if release is None else release.completed_at,
        None if release is None else release.records,
        outcomes,
        stopping,
        is_over(window, reached, newest),
    )


def is_over(window: WindowRow, reached: datetime | None, newest: datetime | None) -> bool:
    """Returns whether a later run has released the window's records.

    A window begins where the last release ended, so a later released window contains the records of an
    earlier one. The next release takes what a replay has listed.

    `reached`: the latest end of a released window. `newest`: when the last release was committed.
    """
    over_at = newest if window.request.reads_again else reached
    begun = window.opened_at if window.request.reads_again else window.end
    return over_at is not None and begun <= over_at


def _outcome(window: WindowRow, stopping: Sequence[FailedRule], rows: FeedRows) -> str:
    if window.done or window.taken_back:
        return window.status
    if rows.holder is not None and rows.holder.split(" ")[0] == window.window_id:
        return RUNNING
    has_failed = rows.failure is not None and rows.failure.window_id == window.window_id
    return FAILED if has_failed or stopping else OPEN


def stage_seconds(window: WindowState, ends: Mapping[str, datetime]) -> dict[str, float]:
    """Returns the seconds of each stage, from the end of the previous stage to its own end, waiting included.

    `ends`: the known ends of stages. A stage that follows an unknown one is left out.
    """
    known = {**ends, **({} if window.completed_at is None else {"publish": window.completed_at})}
    seconds, begun = {}, window.opened_at
    for stage in STAGES:
        if stage not in known:
            break
        seconds[stage] = max((known[stage] - begun).total_seconds(), 0.0)
        begun = known[stage]
    return seconds


def outcomes_of(release: ReleaseFigures) -> dict[str, int]:
    """Returns records by disposition, without zeros.

    Records that did not become changes have counts. The remaining records are changes, or one of the two
    halves of a change.
    """
    others: Counter[str] = Counter()
    for disposition, _, count in release.dispositions or ():
        others[disposition] += count
    changes = max((release.records or 0) - others.total(), 0)
    return {name: count for name, count in {change.CHANGE: changes, **others}.items() if count}


def reached_of(windows: Iterable[WindowRow]) -> datetime | None:
    """Returns the latest end of a completed window. Windows that read again do not count."""
    return max((row.end for row in windows if row.done and not row.request.reads_again), default=None)
