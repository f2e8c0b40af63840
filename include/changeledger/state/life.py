"""A row's life: all changes of one key in the order of its source, and the row as of a time.

pyiceberg reads the published ledger: in the files that may contain the key, only the row groups that do
(ADR 0039).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from typing import Any, Final

from pyiceberg.expressions import And, BooleanExpression
from pyiceberg.table import Table

from changeledger.control import ControlStore
from changeledger.kernels import display
from changeledger.lake import catalog
from changeledger.lake.conditions import is_among, is_equal, is_null
from changeledger.lake.file_scans import FileReader
from changeledger.model import change
from changeledger.model.contract import Column, Contract
from changeledger.model.errors import ConfigError
from changeledger.model.misspelt import choice
from changeledger.model.table_names import TableNames
from changeledger.state.cells import NO_CELL, image_cells, key_texts, typed
from changeledger.state.row_changes import ChangedCell, Position, RowChange, RowState, state_after

# How many keys to which the row has moved are searched for the changes that moved it.
_MOST_MOVES: Final = 50
# How many files are searched for a key at the same time.
_AT_ONCE: Final = 4


@dataclass(frozen=True)
class Place:
    """A feed's table with its published columns. `releases`: the release that published each window."""

    feed: str
    contract: Contract
    releases: Mapping[str, int]

    @property
    def table(self) -> str:
        return self.contract.table

    def ledger(self) -> Table:
        """Returns the ledger. Raises ConfigError if nothing of the table is published."""
        table = catalog.find(TableNames.of(self.feed, self.table).changes)
        if table is None:
            raise ConfigError(
                f"{self.feed} has published nothing of {self.table}", f"see `changeledger status {self.feed}`"
            )
        return table


@dataclass(frozen=True)
class RowLife:
    """All published changes of a key, in the order of their source."""

    place: Place
    key: Mapping[str, str]
    changes: Sequence[RowChange]

    def at(self, moment: datetime | None = None) -> RowState:
        """Returns the row as of a commit time; None: after all changes.

        A change never takes effect before the changes that precede it (`_until`).
        """
        return state_after(self._until(moment), self.key)

    def _until(self, moment: datetime | None) -> Sequence[RowChange]:
        """Returns the changes that had taken effect.

        A snapshot's row, which is read at any time, does not delay the changes after it
        (`reconcile.begin_times`).
        """
        if moment is None:
            return self.changes
        end, is_held_up = 0, False
        for number, row_change in enumerate(self.changes, 1):
            committed = row_change.committed_at
            is_late = committed is not None and committed > moment
            if row_change.operation != change.SNAPSHOT:
                if is_late:
                    break
                # Everything before it had taken effect, too.
                end, is_held_up = number, False
                continue
            is_held_up = is_held_up or is_late
            if not is_held_up:
                end = number
        return self.changes[:end]


def placed(control: ControlStore, feed: str, table: str) -> Place:
    """Returns the published table. Raises ConfigError if the feed has published no such table."""
    contracts = {name.lower(): contract for name, contract in control.contracts.of_feed(feed).items()}
    if table.lower() not in contracts:
        raise ConfigError(f"{feed} has published no table {table!r}", choice(table, contracts))
    return Place(feed, contracts[table.lower()].published, control.releases.by_window(feed))


def life(place: Place, key: Mapping[str, str]) -> RowLife:
    """Returns the row's life. Raises ConfigError if the key is incomplete or a value is not of its type."""
    named = place.contract.key_named(key)
    ledger = place.ledger()
    wanted = {column.name: typed(named[column.name], column) for column in place.contract.key}
    rows = _rows(ledger, _is_key("key", place.contract.key, wanted))
    # Truncates have no key, and few files contain one.
    rows += _rows(ledger, is_null(f"key.{place.contract.key[0].name}"))
    changes = [_change(place, row) for row in rows]
    changes += [_change(place, row, leaves=True) for row in _leaving(ledger, place.contract.key, wanted)]
    changes.sort(key=lambda row_change: (row_change.position.sort_key, row_change.change_id))
    return RowLife(place, named, changes)


def key_of_change(place: Place, change_id: str, lsn: str = "", *, before: bool = False) -> dict[str, str]:
    """Returns the key of the row that a change is about.

    `lsn`: the change's commit LSN as hex, by which files are skipped. `before`: return the key that the row
    had before the change moved it. Raises ConfigError if no such change is published.
    """
    ledger, side = place.ledger(), "previous_key" if before else "key"
    where = is_equal("change_id", change_id)
    try:
        where = And(where, is_equal("commit_lsn", bytes.fromhex(lsn))) if lsn else where
    except ValueError:
        raise ConfigError(f"{lsn!r} is not an LSN", "follow the link on the page again") from None
    keys = ledger.scan(where, selected_fields=(side,), limit=1).to_arrow().column(side).to_pylist()
    if not keys or keys[0] is None:
        raise ConfigError(
            f"{place.feed} has published no such change of {place.table}",
            "the link is outdated: since the comparison the release was taken back, or the table was built "
            "again",
        )
    return key_texts(keys[0])


def _rows(ledger: Table, where: BooleanExpression) -> list[dict[str, Any]]:
    """Returns whole rows. Reads the key of each file first: most files of a large ledger do not have it."""
    scan = ledger.scan(where)
    schema, tasks = scan.projection(), list(scan.plan_files())
    keys, wide = (FileReader.of(scan, columns) for columns in (schema.select("key"), schema))
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        numbers = pool.map(lambda task: sum(map(len, keys.batches(task))), tasks)
        hit = [task for task, number in zip(tasks, numbers, strict=True) if number]
    return [row for task in hit for batch in wide.batches(task) for row in batch.to_pylist()]


def _leaving(ledger: Table, key: Sequence[Column], wanted: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns the changes that moved the row to another key.

    Finds them by the column `previous_key`, which few rows have.
    """
    is_from = _is_key("previous_key", key, wanted)
    scan = ledger.scan(is_from)
    keys = FileReader.of(scan, scan.projection().select("key"))
    moves = [row["key"] for task in scan.plan_files() for b in keys.batches(task) for row in b.to_pylist()]
    onto = {tuple(new.values()): new for new in moves}
    wheres = (And(_is_key("key", key, new), is_from) for new in list(onto.values())[:_MOST_MOVES])
    return [row for where in wheres for row in _rows(ledger, where)]


def _is_key(side: str, key: Sequence[Column], wanted: Mapping[str, Any]) -> BooleanExpression:
    """Returns the condition for a key. Raises ConfigError for a name with a dot: it leads into a struct."""
    dotted = next((c.name for c in key if "." in c.name), None)
    if dotted is not None:
        raise ConfigError(
            f"{dotted} has a dot in its name, so the files cannot be searched by this column",
            "find the row with `changeledger query`",
        )
    return reduce(And, (_is_equal(f"{side}.{c.name}", c, wanted[c.name]) for c in key))


def _is_equal(name: str, column: Column, value: Any) -> BooleanExpression:
    if column.sql_type.base == "uniqueidentifier":
        # Tools write GUIDs in different cases.
        return is_among(name, {value, value.upper(), value.lower()})
    return is_equal(name, value)


def _change(place: Place, row: Mapping[str, Any], *, leaves: bool = False) -> RowChange:
    moved = row["previous_key"]
    return RowChange(
        row["change_id"],
        row["operation"],
        tuple(_cells(place.contract, row)),
        row["changed"],
        row["mask"],
        Position(_hex(row["commit_lsn"]), _hex(row["change_lsn"]), _hex(row["sort_key"]) or "",
                 row["event_serial_no"]),
        row["committed_at"],
        row["transaction_id"],
        tuple(row["flags"] or ()),
        display.place(row["source_position"]),
        display.place(row["paired_source_position"]) if row["paired_source_position"] else None,
        row["window_id"],
        place.releases.get(row["window_id"]),
        None if leaves or moved is None else key_texts(moved),
        key_texts(row["key"]) if leaves else None,
    )  # fmt: skip


def _cells(contract: Contract, row: Mapping[str, Any]) -> Iterable[ChangedCell]:
    before = image_cells(row["before"], row["before_unknown_columns"], contract)
    after = image_cells(row["after"], row["after_unknown_columns"], contract)
    named = None if row["changed"] is None else {name.lower() for name in row["changed"]}
    for name in contract.names:
        is_named = None if named is None else name.lower() in named
        yield ChangedCell(name, before.get(name, NO_CELL), after.get(name, NO_CELL), is_named)


def _hex(value: bytes | None) -> str | None:
    return None if value is None else value.hex().upper()
