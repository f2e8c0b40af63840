"""Resets: since when a feed is loaded again while readers keep the old tables, by whom, why, and how far."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from changeledger.control import ControlStore
from changeledger.control.overview import FeedRows
from changeledger.model.window import STAGES
from changeledger.model.wording import counted, shortened
from changeledger.state.windows import FAILED, RUNNING, WindowState, window_states


@dataclass(frozen=True)
class ResetState:
    """A reset that waits until a run is released. `kept`: the release that readers have meanwhile.

    `run`: the last run since the reset was requested, with the stages that it has `done` and the number of
    `records` that it has read; None before the first run.
    """

    reason: str
    by: str
    asked_at: datetime
    accept_gap: bool
    kept: int | None
    run: WindowState | None = None
    done: tuple[str, ...] = ()
    records: int = 0

    @property
    def how_far(self) -> str:
        if self.run is None:
            return "no run has begun yet: the next one reads from the source's beginning"
        parts = [f"{counted(self.records, 'record')} read"] if self.records else []
        parts += [f"{', '.join(self.done)} done"] if self.done else []
        last = len(self.done) == len(STAGES)
        parts += [
            f"{STAGES[len(self.done)]} runs"
            if self.run.outcome == RUNNING and not last
            else f"the run is {self.run.outcome}, and the next one begins again"
            if self.run.outcome == FAILED
            else f"the run is {self.run.outcome}"
        ]
        return ", ".join(parts)

    @property
    def sentence(self) -> str:
        """A sentence for a list of feeds."""
        since, why = f"{self.asked_at:%Y-%m-%d %H:%M} UTC", shortened(self.reason.rstrip("."))
        kept = "" if self.kept is None else f" Readers keep release {self.kept}."
        return f"Loaded again since {since}, asked by {self.by}: {why}. So far: {self.how_far}.{kept}"


def reset_state(control: ControlStore, feed: str, rows: FeedRows) -> ResetState | None:
    """Returns the state of a waiting reset, or None. Every run that began since its request starts over."""
    row = rows.reset
    if row is None:
        return None
    asked = row.reason, row.by, row.asked_at, row.accept_gap, rows.releases[0].id if rows.releases else None
    since = [window for window in window_states(rows) if window.opened_at >= row.asked_at]
    run = max(since, key=lambda window: window.opened_at, default=None)
    if run is None:
        return ResetState(*asked)
    ends = control.overview.stage_ends(feed, [run.id]).get(run.id, {})
    done = tuple(stage for stage in STAGES if stage in ends)
    return ResetState(*asked, run, done, sum(read.received for read in control.sources.reads(feed, run.id)))
