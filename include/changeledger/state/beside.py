"""Compares one row in several feeds of its database, side by side, as of a time."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import combinations

from changeledger.compare.columns import why_not_compared
from changeledger.control import ControlStore
from changeledger.model.errors import ConfigError
from changeledger.state.cells import NO_CELL, Cell, differ
from changeledger.state.life import RowLife, life, placed
from changeledger.state.row_changes import RowState


@dataclass(frozen=True)
class ColumnBeside:
    """A column with its cell in each feed, by name. `disagrees`: two known cells have different values."""

    column: str
    cells: Mapping[str, Cell]
    disagrees: bool


@dataclass(frozen=True)
class Beside:
    """The row in each feed.

    `problems`: why the row could not be looked up, by feed. `behind`: feeds that are released only up to this
    time, before the last change shown of the row. They cannot disagree.
    """

    lives: Mapping[str, RowLife]
    states: Mapping[str, RowState]
    columns: Sequence[ColumnBeside]
    problems: Mapping[str, str]
    behind: Mapping[str, datetime]

    @property
    def lives_differ(self) -> bool:
        """Whether one feed has the row and another one does not."""
        alive = {state.is_alive for feed, state in self.states.items() if feed not in self.behind}
        return len(alive) > 1

    def missing_at(self, lsn: str | None) -> list[str]:
        """Returns feeds that lack the commit, although they have commits of the row before and after it.

        A commit that a feed may not have reached yet does not count as missing.
        """
        if lsn is None:
            return []
        known = {name: [c.position.commit_lsn for c in row_life.changes if c.position.commit_lsn]
                 for name, row_life in self.lives.items()}  # fmt: skip
        here = {name for name, lsns in known.items() if lsn in lsns}
        return [
            name
            for name, lsns in known.items()
            if name not in here
            and lsns
            and min(lsns) < lsn < max(lsns)
            # Feeds without a common position cannot be compared.
            and any(set(lsns) & set(known[other]) for other in here)
        ]


def beside(
    control: ControlStore, reference: RowLife, others: Sequence[str], moment: datetime | None = None
) -> Beside:
    """Compares the row in several feeds.

    `others`: feeds of the same database. Those that lack the table are left out with a reason.
    """
    lives, problems = {reference.place.feed: reference}, {}
    for feed in others:
        try:
            lives[feed] = life(placed(control, feed, reference.place.table), reference.key)
        except ConfigError as error:
            problems[feed] = error.message
    states = {feed: row_life.at(moment) for feed, row_life in lives.items()}
    behind = _behind(control, states)
    # The reference comes first, so its columns keep their order and names.
    names: dict[str, str] = {}
    for row_life in lives.values():
        for name in row_life.place.contract.names:
            names.setdefault(name.lower(), name)
    columns = [_column(lives, states, behind, name) for name in names.values()]
    return Beside(lives, states, columns, problems, behind)


def _behind(control: ControlStore, states: Mapping[str, RowState]) -> dict[str, datetime]:
    """Returns feeds whose windows end before the last change that another feed has of the row."""
    times = {feed: None if s.last is None else s.last.committed_at for feed, s in states.items()}
    newest = max(filter(None, times.values()), default=None)
    if newest is None:
        return {}
    ends = {feed: _whole_to(control, feed) for feed in states}
    return {
        feed: end
        for feed, end in ends.items()
        # A run by hand may have read beyond the window's end.
        if end is not None and end <= newest and times[feed] != newest
    }


def _whole_to(control: ControlStore, feed: str) -> datetime | None:
    """Returns up to when all tables of the feed have their changes.

    While a release moves its tables, some of them may lack the changes of its window.
    """
    moving = [control.windows.row(feed, release.window_id) for release in control.releases.incomplete(feed)]
    begins = [window.start for window in moving if window is not None]
    return min(begins) if begins else control.windows.reached(feed)


def _column(
    lives: Mapping[str, RowLife], states: Mapping[str, RowState], behind: Collection[str], name: str
) -> ColumnBeside:
    known = {
        feed: next((c for c in row_life.place.contract.columns if c.name.lower() == name.lower()), None)
        for feed, row_life in lives.items()
    }
    cells = {
        feed: NO_CELL if column is None else states[feed].cells.get(column.name, NO_CELL)
        for feed, column in known.items()
    }
    present = [(feed, c) for feed, c in known.items() if c is not None and feed not in behind]
    disagrees = any(
        not why_not_compared(a, b) and differ(cells[feed], cells[other], (a, b))
        for (feed, a), (other, b) in combinations(present, 2)
    )
    return ColumnBeside(name, cells, disagrees)
