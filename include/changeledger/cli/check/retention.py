"""Checks whether the source keeps records until a run has read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

from croniter import croniter

from changeledger.cli.check.outcome import FAILED, OK, WARNING, Check
from changeledger.config.feed import Feed
from changeledger.model.wording import duration

# Enough to find a schedule's longest pause: a week of runs every half hour.
_RUNS_LOOKED_AT = 400


def longest_pause(schedule: str) -> timedelta:
    """Returns the longest time between two consecutive runs."""
    times = croniter(schedule, datetime.now(UTC), ret_type=datetime)
    runs: list[datetime] = [times.get_next() for _ in range(_RUNS_LOOKED_AT)]
    return max(later - earlier for earlier, later in pairwise(runs))


def kept(what: str, kept_for: timedelta, feed: Feed) -> Check:
    """Returns the check of a source, named `what`, that keeps records for a certain time."""
    pause = longest_pause(feed.schedule)
    text = f"{what} keeps records for {duration(kept_for)}; the schedule pauses for up to {duration(pause)}"
    if kept_for <= pause:
        return Check("retention", FAILED, text, "raise the retention, or run the feed more often")
    if kept_for < pause + feed.deadline:
        late = f"{text}, and a run may be late by `deadline`, {duration(feed.deadline)}"
        remedy = "raise the retention: records removed before a run reads them are lost"
        return Check("retention", WARNING, late, remedy)
    return Check("retention", OK, text)
