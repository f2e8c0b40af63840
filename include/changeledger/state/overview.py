"""The overview of feeds: a line for each, with a sentence that says why if the feed needs attention."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from changeledger.config.feed import Feed
from changeledger.control import ControlStore
from changeledger.control.comparisons import PairOutcome
from changeledger.control.outcomes import last_outcomes, worst_comparison, worst_proof
from changeledger.control.overview import FailedRule, FeedRows, ReleaseFigures
from changeledger.control.tables.results import DIFFER, WARN
from changeledger.model import change
from changeledger.model.wording import counted, shortened
from changeledger.state.reach import Reach, reach_of
from changeledger.state.resets import ResetState, reset_state
from changeledger.state.windows import FAILED, RUNNING, WindowState, last_stored, reached_of, window_states

# Levels of feeds, the gravest first.
BAD: Final = "bad"
STALE: Final = "stale"
WARNED: Final = "warn"
RUNS: Final = "run"
GOOD: Final = "ok"
IDLE: Final = "idle"
LEVELS: Final = (BAD, STALE, WARNED, RUNS, GOOD, IDLE)

# The prefix of what the audit judges besides tables: the records of a feed's run.
OF_RECORDS: Final = "feed "

# How many windows the strip shows.
LAST: Final = 28
# How many windows that an audit has stopped get a reason each.
_NAMED: Final = 3
# Places where people can act on a reason.
WINDOW, QUARANTINE, RELEASES, TABLES, COMPARISON, PROOF, FEED, RESET = (
    "window", "quarantine", "releases", "tables", "comparison", "proof", "feed", "reset",
)  # fmt: skip


class Reason(NamedTuple):
    """Why a feed needs attention. `place`: where people can act on it. `argument`: the window's id there."""

    level: str
    text: str
    place: str
    argument: str = ""


@dataclass(frozen=True)
class FeedLine:
    """The line of a feed. Times are UTC. None: unknown."""

    feed: str
    dialect: str
    database: str
    level: str
    reasons: Sequence[Reason] = ()
    reach: Reach | None = None
    # The latest end of a window that is released or empty.
    released_to: datetime | None = None
    release: int | None = None
    released_at: datetime | None = None
    windows: Sequence[WindowState] = ()
    # Current rows of all tables as last released.
    rows: int | None = None
    # Records that the shown windows have quarantined and that are still in quarantine.
    quarantined: int = 0
    # The window of the last audit, and how many rules it judged and found violated.
    audited: str = ""
    judged: int = 0
    violated: int = 0
    # Whether one of the violated rules has stopped the run.
    is_stopped: bool = False
    compared: str | None = None
    proven: str | None = None
    # A reset that waits for a run.
    reset: ResetState | None = None

    @property
    def why(self) -> Reason | None:
        return self.reasons[0] if self.reasons else None

    @property
    def is_late(self) -> bool:
        """Whether something waits at the source for longer than the feed allows."""
        return any(reason.level == BAD and reason.place == FEED for reason in self.reasons)


def lines(control: ControlStore, feeds: Mapping[str, Feed]) -> list[FeedLine]:
    """Returns the lines of all feeds, first those that need attention, then by name."""
    now = datetime.now(UTC)
    databases = {feed.database for feed in feeds.values()}
    pairs = control.comparisons.pair_outcomes(databases)
    proofs = last_outcomes(control.proofs, databases)
    every, known = [], control.overview.rows_of_feeds(feeds, LAST)
    for name, feed in feeds.items():
        rows = known[name]
        reset = reset_state(control, name, rows)
        of_feed = [pair for pair in pairs if name in {pair.reference, pair.feed}]
        every.append(_line(feed, rows, reset, of_feed, proofs.get(name, []), now))
    return sorted(every, key=lambda line: (LEVELS.index(line.level), line.feed))


def unread(feeds: Mapping[str, Feed]) -> list[FeedLine]:
    """Returns lines for an installation in which nothing has run."""
    return [FeedLine(feed.feed, feed.dialect, feed.database, IDLE) for feed in feeds.values()]


def line(control: ControlStore, feed: Feed, rows: FeedRows) -> FeedLine:
    """Returns the line of one feed. `rows`: with `LAST` windows or more."""
    pairs = control.comparisons.pair_outcomes([feed.database], feed.feed)
    outcomes = last_outcomes(control.proofs, [feed.database], feed.feed).get(feed.feed, [])
    # The same windows as on the page of all feeds.
    shown = [row for at, row in enumerate(rows.windows) if at < LAST or row.status == "open"]
    reset = reset_state(control, feed.feed, rows)
    rows = replace(rows, windows=shown)
    return _line(feed, rows, reset, pairs, outcomes, datetime.now(UTC))


def _line(  # noqa: PLR0913, PLR0917 - what is known of one
    feed: Feed,
    rows: FeedRows,
    reset: ResetState | None,
    pairs: Sequence[PairOutcome],
    proofs: Sequence[str],
    now: datetime,
) -> FeedLine:
    windows = window_states(rows)
    compared = [outcome for pair in pairs for outcome in pair.outcomes]
    newest = rows.releases[0] if rows.releases else None
    reasons = sorted(
        (
            *_failures(rows, windows),
            *_waiting(feed, rows, windows, now),
            *_results(compared, proofs),
            *_remarks(rows, reset, windows),
        ),
        key=lambda reason: LEVELS.index(reason.level),
    )
    return FeedLine(
        feed.feed,
        feed.dialect,
        feed.database,
        _level(reasons, windows),
        reasons,
        reach_of(rows.states, now),
        reached_of(rows.windows),
        None if newest is None else newest.id,
        None if newest is None else newest.created_at,
        windows[:LAST],
        sum(counts.get("current", 0) for counts in rows.tables.values()) if newest is not None else None,
        _quarantined(rows, windows),
        *_last_audit(rows),
        worst_comparison(compared) if compared else None,
        worst_proof(proofs) if proofs else None,
        reset,
    )


def _last_audit(rows: FeedRows) -> tuple[str, int, int, bool]:
    """Returns the last audit: its window, rules judged, rules violated, and whether one stopped the run."""
    audited = max(rows.judged, default="")
    violated = [rule for rule in rows.failed if rule.window_id == audited]
    return audited, rows.judged.get(audited, 0), len(violated), any(rule.stops for rule in violated)


def _level(reasons: Sequence[Reason], windows: Sequence[WindowState]) -> str:
    if any(window.outcome == RUNNING for window in windows) and (not reasons or reasons[0].level != BAD):
        return RUNS
    if reasons:
        return reasons[0].level
    return GOOD if windows else IDLE


def _failures(rows: FeedRows, windows: Sequence[WindowState]) -> Iterator[Reason]:
    """Yields failures of the last run, and of audits whose records no later run has released."""
    stopped = [
        window for window in windows if window.outcome == FAILED and window.stopping and not window.is_over
    ]
    for window in stopped[:_NAMED]:
        yield Reason(BAD, _stopped(window.stopping), WINDOW, window.id)
    if len(stopped) > _NAMED:
        text = f"The audit has stopped {counted(len(stopped) - _NAMED, 'other window')} before."
        yield Reason(BAD, text, WINDOW, stopped[_NAMED].id)
    named = {window.id for window in stopped}
    failure = rows.failure
    if failure is not None and failure.window_id not in named:
        error = shortened(failure.error.splitlines()[0].strip())
        yield Reason(BAD, f"{failure.stage.capitalize()} has failed: {error}", WINDOW, failure.window_id)
    newest = rows.releases[0] if rows.releases else None
    if newest is not None and newest.status == "committed" and rows.holder is None:
        text = f"Release {newest.id} is committed but not finished: the next run finishes it."
        yield Reason(BAD, text, RELEASES)


def _stopped(rules: Sequence[FailedRule]) -> str:
    first, more = rules[0], len(rules) - 1
    others = f", and {counted(more, 'other rule')}" if more else ""
    if first.table.startswith(OF_RECORDS) and first.says and not first.error:
        # A rule about all records of the run has the numbers in its own text.
        return f"The audit has stopped a window because of {first.rule}{others}. {shortened(first.says)}"
    what = "could not be checked" if first.error else f"is violated by {counted(first.violations, 'row')}"
    return f"The audit has stopped a window: {first.rule} of {first.table} {what}{others}."


def _waiting(feed: Feed, rows: FeedRows, windows: Sequence[WindowState], now: datetime) -> Iterator[Reason]:
    latest = last_stored(windows)
    interval = timedelta(0) if latest is None else latest.end - latest.start
    late = [state for state in rows.states if state.is_late(now, feed.deadline, interval)]
    if late:
        worst = min(late, key=lambda state: state.since or now)
        others = f" (and {counted(len(late) - 1, 'other source')})" if len(late) > 1 else ""
        yield Reason(BAD, f"It cannot read on: {worst.text()}{others}.", FEED)
    reached = reached_of(rows.windows)
    if reached is not None and now - reached > interval + feed.deadline:
        text = f"Stale: nothing newer than {reached:%Y-%m-%d %H:%M} UTC is released."
        yield Reason(STALE, text, FEED)
    lacking = feed.listed(rows.lacking)
    if lacking:
        first, more = lacking[0], len(lacking) - 1
        others = f", and {counted(more, 'other table')} lack some" if more else ""
        lacks = f"{first.table} lacks {counted(first.lacking, 'earlier change')}{others}"
        yield Reason(BAD, f"{lacks}: it joined the feed later.", TABLES)


def _results(compared: Sequence[str], proofs: Sequence[str]) -> Iterator[Reason]:
    if DIFFER in compared:
        yield Reason(BAD, "It does not agree with another feed of its database.", COMPARISON)
    elif WARN in compared:
        yield Reason(WARNED, "It agrees with another feed of its database with warnings.", COMPARISON)
    if "drift" in proofs:
        yield Reason(BAD, "Published rows are not what its source has.", PROOF)


def _remarks(rows: FeedRows, reset: ResetState | None, windows: Sequence[WindowState]) -> Iterator[Reason]:
    if reset is not None:
        yield Reason(WARNED, reset.sentence, RESET)
    newest = rows.releases[0] if rows.releases else None
    if newest is not None and newest.tolerated:
        table, rule, count, reason = newest.tolerated[0]
        yield Reason(
            WARNED, f"Tolerated: {rule} of {table} ({count:,}), because: {shortened(reason)}", RELEASES
        )
    published = max((release.id for release in rows.releases if release.rolled_back_to is None), default=None)
    # A rollback to the newest published release goes forward again and is not reported.
    if newest is not None and newest.rolled_back_to not in {None, published}:
        why = shortened(newest.reason or "")
        text = f"Taken back to release {newest.rolled_back_to} by {newest.by}: {why}"
        yield Reason(WARNED, text, RELEASES)
    quarantined = _quarantined(rows, windows)
    if quarantined:
        yield Reason(WARNED, f"{counted(quarantined, 'record')} could not be read lately.", QUARANTINE)


def _quarantined(rows: FeedRows, windows: Sequence[WindowState]) -> int:
    """Returns how many records the windows have put into quarantine that are still there.

    A release that reads records again removes them, and puts back those that still cannot be read.
    """
    shown, is_shown = {window.id for window in windows}, False
    count, before = 0, None
    for release in sorted(rows.releases, key=lambda release: release.id):
        after = release.in_quarantine
        is_shown = is_shown or release.window_id in shown
        if is_shown:
            more = _brought(release) if before is None else after - before
            count = max(0, count + more)
        before = after
    return count


def _brought(release: ReleaseFigures) -> int:
    """Returns how many records a release has quarantined.

    A rollback counts as none, because it has the counts of the release that it goes back to.
    """
    dispositions = () if release.rolled_back_to is not None else release.dispositions or ()
    return sum(count for disposition, _, count in dispositions if disposition == change.QUARANTINED)
