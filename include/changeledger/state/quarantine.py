"""The quarantine of a feed: its records by reason, and some of them as they came."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression

from changeledger.config.feed import Feed
from changeledger.lake import catalog
from changeledger.lake.conditions import is_equal, is_null
from changeledger.state import lake_counts

# Records that a page counts.
MOST: Final = 200_000


class Group(NamedTuple):
    """Quarantined records of one table and reason. `table`: None if they name none."""

    table: str | None
    reason: str
    records: int


@dataclass(frozen=True)
class Quarantine:
    """Groups with the most records first. `is_whole`: are all records counted?"""

    groups: tuple[Group, ...] = ()
    is_whole: bool = True

    @property
    def records(self) -> int:
        return sum(group.records for group in self.groups)


class Chosen(NamedTuple):
    """Which records are meant; None: whatever it is; an empty table: those that name none."""

    table: str | None = None
    reason: str | None = None
    window_id: str | None = None

    @property
    def condition(self) -> BooleanExpression:
        condition: BooleanExpression = AlwaysTrue()
        for name, value in self._asdict().items():
            if value is not None:
                condition = And(condition, is_equal(name, value) if value else is_null(name))
        return condition


def summary(feed: Feed, most: int | None = None) -> Quarantine:
    """By table and reason; of all records, or of at most so many."""
    rows = _rows(feed, most)
    return Quarantine(_groups(rows), most is None or rows.num_rows < most)


def summary_of(feed: Feed, windows: Collection[str]) -> tuple[Quarantine, int]:
    """The records of these windows, and how many there are of others."""
    rows = _rows(feed, None)
    inside = rows.filter(pc.is_in(rows.column("window_id"), value_set=pa.array(sorted(windows), pa.string())))
    return Quarantine(_groups(inside)), len(rows) - len(inside)


def _rows(feed: Feed, most: int | None) -> pa.Table:
    return lake_counts.columns(feed.lake.quarantine, "table", "reason", "window_id", most=most)


def _groups(rows: pa.Table) -> tuple[Group, ...]:
    counts = rows.group_by(["table", "reason"]).aggregate([([], "count_all")]).to_pylist()
    groups = (Group(row["table"], row["reason"], row["count_all"]) for row in counts)
    return tuple(sorted(groups, key=lambda group: (-group.records, group.table or "", group.reason)))


def records(feed: Feed, chosen: Chosen, count: int) -> list[dict[str, Any]]:
    """So many of the records that are meant, with the columns of `change.QUARANTINE_COLUMNS`.

    Files of other records are passed over; reading ends with the last one that is wanted.
    """
    table = catalog.find(feed.lake.quarantine)
    if table is None:
        return []
    rows = table.scan(chosen.condition, limit=count).to_arrow()
    # The newest are the last that were added, and what people look for.
    newest: list[dict[str, Any]] = rows.take(pc.sort_indices(rows, [("window_id", "descending")])).to_pylist()
    return newest
