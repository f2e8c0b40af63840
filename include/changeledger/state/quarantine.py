"""The quarantine of a feed: its records by reason, and some of them as they came."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, EqualTo
from pyiceberg.table import Table

from changeledger.config.feed import Feed
from changeledger.lake import catalog

# Records that are counted. More are not read for a page: `is_whole` says so.
MOST: Final = 200_000


class Group(NamedTuple):
    """Quarantined records of one table and reason. `table`: None if they name none; runs by their windows."""

    table: str | None
    reason: str
    records: int
    first_run: str
    last_run: str


@dataclass(frozen=True)
class Quarantine:
    """`is_whole`: are all records counted?"""

    groups: tuple[Group, ...] = ()
    is_whole: bool = True

    @property
    def records(self) -> int:
        return sum(group.records for group in self.groups)


class Chosen(NamedTuple):
    """Which records are meant; None: whatever it is."""

    table: str | None = None
    reason: str | None = None
    window_id: str | None = None


def summary(feed: Feed) -> Quarantine:
    """By table and reason, the most first."""
    table = catalog.found(feed.lake.quarantine)
    if table is None:
        return Quarantine()
    rows = table.scan(selected_fields=("table", "reason", "window_id"), limit=MOST).to_arrow()
    runs = [("window_id", "count"), ("window_id", "min"), ("window_id", "max")]
    counts = rows.group_by(["table", "reason"]).aggregate(runs).to_pylist()
    groups = (
        Group(row["table"], row["reason"], row["window_id_count"], row["window_id_min"], row["window_id_max"])
        for row in counts
    )
    return Quarantine(tuple(sorted(groups, key=lambda group: -group.records)), rows.num_rows < MOST)


def records(feed: Feed, chosen: Chosen, count: int) -> list[dict[str, Any]]:
    """So many of the records that are meant, with the columns of `change.QUARANTINE_COLUMNS`.

    Files of other records are passed over; reading ends with the last one that is wanted.
    """
    table = catalog.found(feed.lake.quarantine)
    if table is None:
        return []
    rows: list[dict[str, Any]] = _first(table, _condition(chosen), count).to_pylist()
    return rows


def _first(table: Table, where: BooleanExpression, count: int) -> pa.Table:
    # The newest are the last that were added, and what people look for.
    rows = table.scan(where, limit=count).to_arrow()
    return rows.take(pc.sort_indices(rows, [("window_id", "descending")]))


def _condition(chosen: Chosen) -> BooleanExpression:
    meant: BooleanExpression = AlwaysTrue()
    for name, value in _given(chosen):
        meant = And(meant, EqualTo(name, value))  # type: ignore[call-arg, arg-type]
    return meant


def _given(chosen: Chosen) -> Iterator[tuple[str, str]]:
    named: Mapping[str, str | None] = chosen._asdict()
    return ((name, value) for name, value in named.items() if value is not None)
