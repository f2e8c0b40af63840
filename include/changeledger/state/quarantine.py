"""The quarantine of a feed: its records by reason, and some records as received."""

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

# How many records a page counts at most.
MOST: Final = 200_000


class Group(NamedTuple):
    """Quarantined records of one table and reason. `table`: None if the records name none."""

    table: str | None
    reason: str
    records: int


@dataclass(frozen=True)
class Quarantine:
    """The quarantine by groups, those with the most records first. `is_whole`: all records are counted."""

    groups: tuple[Group, ...] = ()
    is_whole: bool = True

    @property
    def records(self) -> int:
        return sum(group.records for group in self.groups)


class Chosen(NamedTuple):
    """A choice of records. None: any. An empty table: records that name no table."""

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
    """Counts records by table and reason: all of them, or at most `most`."""
    rows = _rows(feed, most)
    return Quarantine(_groups(rows), most is None or rows.num_rows < most)


def summary_of(feed: Feed, windows: Collection[str]) -> tuple[Quarantine, int]:
    """Returns the records of these windows, and the number of records of other windows."""
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
    """Returns `count` of the chosen records, with the columns of `change.QUARANTINE_COLUMNS`.

    Skips files without such records, and stops reading when there are enough.
    """
    table = catalog.find(feed.lake.quarantine)
    if table is None:
        return []
    rows = table.scan(chosen.condition, limit=count).to_arrow()
    # The newest first: people look for these.
    newest: list[dict[str, Any]] = rows.take(pc.sort_indices(rows, [("window_id", "descending")])).to_pylist()
    return newest
