"""Draws the status of feeds for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from changeledger.console.terminal import plain
from changeledger.model.wording import counted, duration
from changeledger.state.status import FeedStatus

_STYLES = {
    **dict.fromkeys(("FAILED", "INCOMPLETE", "LATE", "failed", "audit failed"), "red"),
    **dict.fromkeys(
        ("quarantine", "pending", "image chain", "warning", "tolerated", "taken back", "reset"), "yellow"
    ),
}


def drawn(feeds: Sequence[FeedStatus]) -> RenderableType:
    """Draws a block for each feed, with a line for each fact, in colour if somebody must look."""
    grid = Table(box=None, show_header=False, pad_edge=False)
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for at, feed in enumerate(feeds):
        if at:
            grid.add_row("", "")
        name = Text.assemble(plain(feed.feed), style="cyan")
        grid.add_row(name, plain(f"{feed.dialect} of {feed.database}"))
        for what, said in _lines(feed):
            grid.add_row(Text(f"  {what}", style=_STYLES.get(what, "")), plain(said))
    return grid


def _lines(feed: FeedStatus) -> list[tuple[str, str]]:
    lines = [("released", _released(feed)), *_sources(feed), *_asked(feed), *_trouble(feed)]
    if feed.holder is not None:
        lines.append(("running", feed.holder))
    if feed.open_window is not None:
        lines.append(("dry run" if feed.is_dry_run else "not released", feed.open_window))
    lines += [("failed", rule) for rule in feed.failed_rules]
    lines += [("audit failed", f"{window}: {rule}") for window, rules in feed.failed_audits for rule in rules]
    lines += [
        ("tolerated", f"{table}: {rule} ({count}), for: {reason}")
        for table, rule, count, reason in feed.tolerated
    ]
    lines += [
        ("pending", f"{count:,} x {reason}, since {since:%Y-%m-%d %H:%M} UTC")
        for reason, count, since in feed.pending
    ]
    lines += [
        ("quarantine", f"{count:,} x {reason} ({table or 'no table'})")
        for table, reason, count in feed.quarantine
    ]
    lines += [("image chain", f"{count:,} x {kind} ({table})") for table, kind, count in feed.breaks]
    lines += [
        ("warning", f"{counted(count, 'change')} with the flag {flag}")
        for flag, count in feed.warnings.items()
    ]
    lines += [
        ("compared", f"{reference} and {other}: {outcome}, {at:%Y-%m-%d %H:%M} UTC")
        for reference, other, outcome, at in feed.compared
    ]
    if feed.verified is not None:
        outcome, wrong, at = feed.verified
        lines.append(("verified", f"{outcome}{wrong and f' ({wrong})'}, as of {at:%Y-%m-%d %H:%M} UTC"))
    lines += [
        ("masks", f"{table}: {order or 'not proved'}, {why}") for table, (order, why) in feed.masks.items()
    ]
    return lines


def _asked(feed: FeedStatus) -> list[tuple[str, str]]:
    """Returns lines about what people have done to the feed's releases."""
    lines = []
    if feed.rolled_back is not None:
        number, reason, by = feed.rolled_back
        lines.append(("taken back", f"main is release {number} again: {reason} ({by})"))
    if feed.reset is not None:
        reason, by, at = feed.reset
        said = f"the next run loads the feed again from its source's beginning: {reason} ({by}, {_utc(at)})"
        lines.append(("reset", said))
    return lines


def _trouble(feed: FeedStatus) -> list[tuple[str, str]]:
    """Returns lines about what somebody has to deal with."""
    lines = []
    if feed.failure is not None:
        window, stage, error, at = feed.failure
        what, *more = error.splitlines()
        remedies = [line.strip() for line in more if line.strip().startswith("Remedy:")]
        lines.append(("FAILED", " ".join([f"{stage} of {window}, {_utc(at)}: {what}", *remedies])))
    lines += [
        ("INCOMPLETE", f"{table} lacks {counted(count, 'earlier change')}: {_how_to_load(since, until)}")
        for table, count, since, until in feed.incomplete
    ]
    if feed.removed:
        lines.append(
            ("not read", f"{', '.join(feed.removed)}: no longer in the feed; the published tables stay")
        )
    return lines


def _how_to_load(since: datetime | None, until: datetime | None) -> str:
    times = "" if since is None or until is None else f", start {since.isoformat()}, end {until.isoformat()}"
    return f"trigger its DAG with the mode `window` for this table{times}, or `changeledger tables --decline`"


def _released(feed: FeedStatus) -> str:
    if feed.released_to is None or feed.behind is None:
        return "nothing yet"
    release = "nothing found yet"
    if feed.released_at is not None:
        release = f"release {feed.release}, {feed.released_at:%Y-%m-%d %H:%M:%S}"
    return f"to {feed.released_to:%Y-%m-%d %H:%M:%S} UTC, {duration(feed.behind)} ago ({release})"


def _sources(feed: FeedStatus) -> list[tuple[str, str]]:
    """Returns lines about what was read from the source and what waits there."""
    lines = []
    if feed.sources:
        parts = [f"looked at {_utc(min(look.at for look in feed.sources))}"]
        newest = [look.newest for look in feed.sources if look.newest]
        waiting = [look for look in feed.sources if look.behind]
        if newest:
            parts.append(f"newest record {_utc(max(newest))}")
        if waiting:
            count, since = sum(look.behind or 0 for look in waiting), [w.since for w in waiting if w.since]
            parts.append(f"{counted(count, 'record')} behind the end, since {_utc(min(since))}")
        lines.append(("source", "; ".join(parts)))
    lines += [("LATE", text) for text in feed.late]
    return lines + [("source", look.text()) for look in feed.sources if look.is_odd]


def _utc(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S} UTC"
