"""The status of feeds: how far they are released, what waits, what could not be read, and what is flagged."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from changeledger.config.feed import Feed
from changeledger.control import ControlStore, ReleaseRow, WindowRow
from changeledger.control.outcomes import PROVEN, last_proofs, worst_comparison, worst_proof
from changeledger.model.source_state import SourceState
from changeledger.state import lake_counts
from changeledger.state.quarantine import Group
from changeledger.state.quarantine import summary as quarantined
from changeledger.state.windows import is_over
from changeledger.verify.verdicts import summary


@dataclass(frozen=True)
class FeedStatus:
    """The status of a feed. Times are UTC. None: absent."""

    feed: str
    dialect: str
    database: str
    # The release that was committed last.
    release: int | None = None
    released_at: datetime | None = None
    # (release, reason, by whom) if it is a rollback to another release.
    rolled_back: tuple[int, str, str] | None = None
    # (reason, by whom, when) of a reset that waits for the next run.
    reset: tuple[str, str, datetime] | None = None
    # The latest end of a window that is released or had nothing new, and how long ago that is.
    released_to: datetime | None = None
    behind: timedelta | None = None
    position: dict[str, Any] | None = None
    # What extract last saw of each source.
    sources: tuple[SourceState, ...] = ()
    # Sources that the feed should have read further: what waits, since when, and why.
    late: tuple[str, ...] = ()
    # (table, changes, since, until): earlier changes that a table lacks and that nobody has declined.
    incomplete: tuple[tuple[str, int, datetime | None, datetime | None], ...] = ()
    # Tables that the feed has read but no longer lists.
    removed: tuple[str, ...] = ()
    # (window, stage, error with its remedy, at) of the last run, if it failed.
    failure: tuple[str, str, str, datetime] | None = None
    # The holder of the feed's lease.
    holder: str | None = None
    # A window that is open and not released, and the rules that its audit found violated.
    open_window: str | None = None
    failed_rules: tuple[str, ...] = ()
    # (window, failed rules) of earlier windows that an audit stopped and whose records are not released.
    failed_audits: tuple[tuple[str, tuple[str, ...]], ...] = ()
    # Whether the open window is of a dry run.
    is_dry_run: bool = False
    # (table, rule, violations, reason) of violations that were tolerated in the last release.
    tolerated: tuple[tuple[str, str, int, str], ...] = ()
    # By table: the byte order of its change masks, and the evidence for it.
    masks: dict[str, tuple[str | None, str]] = field(default_factory=dict)
    # (reason, messages, waiting since) of pending messages, the oldest first.
    pending: tuple[tuple[str, int, datetime], ...] = ()
    quarantine: tuple[Group, ...] = ()
    # (table, kind, changes) of published breaks of the image chain.
    breaks: tuple[tuple[str, str, int], ...] = ()
    # The number of published changes with each flag.
    warnings: dict[str, int] = field(default_factory=dict)
    # (reference, feed, outcome, at) of the last comparison of each pair that the feed belongs to.
    compared: tuple[tuple[str, str, str, datetime], ...] = ()
    # (outcome, what is wrong in words, up to when the source was read) of the last proofs of the tables.
    verified: tuple[str, str, datetime] | None = None


def gather(control: ControlStore, feed: Feed) -> FeedStatus:
    """Returns the status. Reads the control store and, from the lake, small tables and the ledgers' flags."""
    now = datetime.now(UTC)
    release, lease = control.releases.latest(feed.feed), control.leases.of_feed(feed.feed)
    last, reached = control.windows.last(feed.feed), control.windows.reached(feed.feed)
    unreleased = last if last is not None and not last.done else None
    reset, failure = control.resets.pending(feed.feed), control.failures.of_feed(feed.feed)
    states = tuple(control.sources.states(feed.feed).values())
    return FeedStatus(
        feed.feed,
        feed.dialect,
        feed.database,
        release=None if release is None else release.id,
        released_at=None if release is None else release.created_at,
        rolled_back=_rolled_back(release),
        reset=None if reset is None else (reset.reason, reset.by, reset.asked_at),
        released_to=reached,
        behind=None if reached is None else now - reached,
        position=control.windows.position(feed.feed),
        sources=states,
        late=_late(feed, states, now, last),
        failure=None if failure is None else (failure.window_id, failure.stage, failure.error, failure.at),
        incomplete=_incomplete(control, feed),
        removed=tuple(name for name in control.feed_tables.of_feed(feed.feed) if feed.table(name) is None),
        holder=lease.holder if lease is not None and lease.expires_at > now else None,
        open_window=None if unreleased is None else unreleased.window_id,
        is_dry_run=unreleased is not None and unreleased.request.dry_run,
        tolerated=() if release is None else tuple(map(tuple, release.counts.get("tolerated", ()))),
        failed_rules=_failed_rules(control, unreleased),
        failed_audits=_failed_audits(control, feed, last, release, reached),
        masks=_masks(control, feed),
        pending=lake_counts.pending(feed),
        quarantine=quarantined(feed).groups,
        breaks=lake_counts.breaks(feed),
        warnings=lake_counts.warnings(feed),
        compared=_compared(control, feed),
        verified=_verified(control, feed),
    )


def _failed_audits(
    control: ControlStore,
    feed: Feed,
    last: WindowRow | None,
    release: ReleaseRow | None,
    reached: datetime | None,
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Returns the failed audits of windows that were opened before the last one and are not over."""
    failed_audits, released_at = [], None if release is None else release.created_at
    for window in control.windows.all_open(feed.feed):
        if last is not None and window.window_id == last.window_id:
            continue
        if is_over(window, reached, released_at):
            continue
        audits = control.audits.of_window(window.feed, window.window_id)
        if rules := tuple(audit.summary for audit in audits if audit.detail["stops"]):
            failed_audits.append((window.window_id, rules))
    return tuple(failed_audits)


def _rolled_back(release: ReleaseRow | None) -> tuple[int, str, str] | None:
    if release is None or release.rolled_back_to is None:
        return None
    return release.rolled_back_to, release.reason or "", release.by or ""


def _late(
    feed: Feed, states: Iterable[SourceState], now: datetime, last: WindowRow | None
) -> tuple[str, ...]:
    # Records after the end of a window wait for the next window, which is as long.
    interval = timedelta(0) if last is None else last.end - last.start
    return tuple(state.text() for state in states if state.is_late(now, feed.deadline, interval))


def _masks(control: ControlStore, feed: Feed) -> dict[str, tuple[str | None, str]]:
    evidence = control.contracts.mask_evidence(feed.feed)
    return {table: (row.mask_order, row.why) for table, row in evidence.items()}


def _incomplete(
    control: ControlStore, feed: Feed
) -> tuple[tuple[str, int, datetime | None, datetime | None], ...]:
    rows = feed.listed(control.feed_tables.lacking(feed.feed))
    return tuple((row.table, row.lacking, row.since, row.until) for row in rows)


def _failed_rules(control: ControlStore, window: WindowRow | None) -> tuple[str, ...]:
    audits = [] if window is None else control.audits.of_window(window.feed, window.window_id)
    return tuple(audit.summary for audit in audits if not audit.success)


def _verified(control: ControlStore, feed: Feed) -> tuple[str, str, datetime] | None:
    """Returns the worst outcome among the last proofs of the feed's tables."""
    rows = last_proofs(control.proofs, feed.database, [feed.feed]).get(feed.feed, [])
    if not rows:
        return None
    wrong = ", ".join(f"{row.table}: {summary(row.counts)}" for row in rows if row.outcome != PROVEN)
    return worst_proof(row.outcome for row in rows), wrong, min(row.until for row in rows)


def _compared(control: ControlStore, feed: Feed) -> tuple[tuple[str, str, str, datetime], ...]:
    """Returns, for each pair, the worst outcome among the last comparisons of its tables."""
    return tuple(
        (pair.reference, pair.feed, worst_comparison(pair.outcomes), pair.at)
        for pair in control.comparisons.pair_outcomes([feed.database], feed.feed)
    )
