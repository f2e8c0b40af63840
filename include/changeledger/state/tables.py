"""The tables of a feed: rows, key, byte order of masks, changes that they lack, and unknown columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

from changeledger.config.feed import Feed
from changeledger.control import ControlStore
from changeledger.lake import catalog
from changeledger.model.contract import Contract

# How many rows a page looks at to count unknown columns.
MOST: Final = 500_000


@dataclass(frozen=True)
class TableState:
    """A table as last released. None: unknown, or never released.

    `lacks`: the number of earlier changes that it lacks, in `[since, until)`. `is_read`: the feed still lists
    it.
    """

    table: str
    is_read: bool = True
    current: int | None = None
    history: int | None = None
    changes: Mapping[str, int] | None = None
    key: Sequence[str] = ()
    columns: int | None = None
    mask_order: str | None = None
    mask_why: str | None = None
    lacks: int = 0
    since: datetime | None = None
    until: datetime | None = None


class Listed(NamedTuple):
    """Tables of a feed. `matching`: how many match the text. `of_all`: how many there are in all."""

    states: Sequence[TableState]
    matching: int
    of_all: int


def table_states(
    control: ControlStore, feed: Feed, counts: Mapping[str, Any], wanted: str = "", most: int | None = 100
) -> Listed:
    """Returns tables whose name contains the text `wanted`, at most `most`, or all.

    `counts`: those of the newest release, by table.
    """
    rows = control.feed_tables.of_feed(feed.feed)
    names = [config.table for config in feed.tables]
    names += [table for table in {**rows, **counts} if feed.table(table) is None]
    matching = [name for name in names if wanted.lower() in name.lower()]
    shown = matching[:most]
    contracts = control.contracts.of_feed(feed.feed, shown)
    masks = control.contracts.mask_evidence(feed.feed)
    states = []
    for name in shown:
        count, contract = counts.get(name, {}), contracts.get(name)
        mask, row = masks.get(name), rows.get(name)
        is_read = feed.table(name) is not None
        lacks = is_read and row is not None and row.declined_reason is None and row.lacking > 0
        states.append(
            TableState(
                name,
                is_read,
                count.get("current"),
                count.get("history"),
                count.get("changes"),
                () if contract is None else tuple(column.name for column in contract.key),
                None if contract is None else len(contract.columns),
                None if mask is None else mask.mask_order,
                None if mask is None else mask.why,
                row.lacking if row is not None and lacks else 0,
                row.since if row is not None and lacks else None,
                row.until if row is not None and lacks else None,
            )
        )
    return Listed(states, len(matching), len(names))


@dataclass(frozen=True)
class Columns:
    """The columns of a table.

    `rows`: how many rows were looked at; None if the table is not published. `unknown`: in how many of them
    each column is unknown. `is_whole`: all rows were looked at.
    """

    contract: Contract | None
    unknown: Mapping[str, int]
    rows: int | None
    is_whole: bool = True


def columns_of(control: ControlStore, feed: Feed, table: str) -> Columns:
    """Returns the columns. Reads one column of the current rows."""
    contract = control.contracts.of_feed(feed.feed, [table]).get(table)
    names = feed.names.get(table)
    published = None if names is None else catalog.find(names.current)
    if published is None:
        return Columns(contract, {}, None)
    rows = published.scan(selected_fields=("_unknown_columns",), limit=MOST).to_arrow()
    counts: Counter[str] = Counter()
    for unknown in rows.column("_unknown_columns").drop_null().to_pylist():
        counts.update(name for name, _ in unknown)
    return Columns(contract, counts, rows.num_rows, rows.num_rows < MOST)
