"""The releases of a feed, for people who look back at them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from changeledger.control import ControlStore, ReleaseHead, ResetRow, taken_back
from changeledger.model import change

# How many tables of a release are listed: those with the most changes.
MOST_TABLES: Final = 25


class TableCounts(NamedTuple):
    """What a release published of a table.

    `rows`: the number of current rows. `more`: how many more than in the previous release; None: unknown.
    """

    table: str
    changes: Mapping[str, int]
    rows: int | None
    more: int | None

    @property
    def changed(self) -> int:
        return sum(self.changes.values())


@dataclass(frozen=True)
class ReleaseState:
    """A release.

    `taken_back`: the rollback that took it back. `reset`: the reset that it completed, for which all tables
    were loaded again. `tolerated`: (table, rule, rows, why).
    """

    head: ReleaseHead
    is_newest: bool
    taken_back: ReleaseHead | None
    reset: ResetRow | None
    tables: Sequence[TableCounts]
    # The number of all tables, including those that are not listed.
    of_all: int
    changes: int
    rows: int
    more: int | None
    quarantined: int
    tolerated: Sequence[tuple[str, str, int, str]]


def release_states(
    control: ControlStore, feed: str, before: int | None, count: int, resets: Iterable[ResetRow] = ()
) -> tuple[list[ReleaseState], int | None]:
    """Returns `count` releases below the number `before`, the newest first, and where the next ones begin.

    `resets`: those of the feed.
    """
    ended = {reset.release: reset for reset in resets}
    heads = control.releases.heads(feed)
    takers, newest = taken_back(heads), heads[-1].id if heads else None
    older = [head for head in reversed(heads) if before is None or head.id < before]
    shown = older[:count]
    counts = control.releases.counts(feed, {number for head in shown for number in (head.id, head.id - 1)})
    states = [
        _state(
            head,
            (head.id == newest, takers.get(head.id), ended.get(head.id)),
            counts.get(head.id, {}),
            counts.get(head.id - 1),
        )
        for head in shown
    ]
    return states, shown[-1].id if len(older) > count else None


def _state(
    head: ReleaseHead,
    fate: tuple[bool, ReleaseHead | None, ResetRow | None],
    counts: Mapping[str, Any],
    earlier: Mapping[str, Any] | None,
) -> ReleaseState:
    before = None if earlier is None else earlier.get("tables", {})
    # A rollback has no changes of its own, and the row counts of the release that it goes back to.
    tables = [
        _table(name, of, before, has_changes=head.rolled_back_to is None)
        for name, of in counts.get("tables", {}).items()
    ]
    known = [table.more for table in tables if table.more is not None]
    return ReleaseState(
        head,
        *fate,
        sorted(tables, key=lambda table: (-table.changed, table.table))[:MOST_TABLES],
        len(tables),
        sum(table.changed for table in tables),
        sum(table.rows or 0 for table in tables),
        sum(known) if known else None,
        sum(row[2] for row in counts.get("dispositions", ()) if row[0] == change.QUARANTINED),
        [tuple(row) for row in counts.get("tolerated", ())],
    )


def _table(
    name: str, counts: Mapping[str, Any], before: Mapping[str, Any] | None, *, has_changes: bool
) -> TableCounts:
    rows = counts.get("current")
    more = None if rows is None or before is None else rows - before.get(name, {}).get("current", 0)
    return TableCounts(name, counts.get("changes", {}) if has_changes else {}, rows, more)
