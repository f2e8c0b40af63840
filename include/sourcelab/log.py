"""A simulated transaction log of SQL Server, and the truth that follows from it. Same seed, same log."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from random import Random
from typing import Any, Literal

from sourcelab.tables import TABLES, Column, Key, Row, Table
from sourcelab.values import other_value

Operation = Literal["insert", "update", "delete", "key_update"]

START = datetime(2024, 3, 1, 8, 0, tzinfo=UTC)
_INITIAL_ROWS = 12
# How often statements touch each table: weights.
_LIVELINESS = dict(zip((t.full_name for t in TABLES), (4, 4, 3, 1), strict=True))

# Makes a value for a column that differs from its present value.
MakeValue = Callable[[Random, Column, Any], Any]


@dataclass(frozen=True)
class Change:
    """What one statement did to one row. Rows are complete and must not be changed.

    A key update is one change here; the dialects write it as a delete and an insert at one position. `serial`
    counts the changes of the whole log. `changed` is empty except for updates and key updates.
    """

    table: Table
    operation: Operation
    before: Row | None
    after: Row | None
    change_lsn: bytes
    command_id: int
    changed: tuple[str, ...]
    serial: int

    @property
    def untouched_large(self) -> dict[str, None]:
        """A NULL for each large value that an update did not change."""
        columns = self.table.columns if self.operation == "update" else ()
        return {c.name: None for c in columns if c.is_large and c.name not in self.changed}

    @property
    def hides_large(self) -> bool:
        """Whether change tables lack those values in the new row, too. This alternates, since both occur."""
        return self.serial % 2 == 1


@dataclass(frozen=True)
class Transaction:
    """A transaction. Times are UTC in whole milliseconds; two transactions may share one."""

    begin_time: datetime
    commit_time: datetime
    begin_lsn: bytes
    commit_lsn: bytes
    changes: tuple[Change, ...]


@dataclass(frozen=True)
class Interval:
    """A row of a key during `[valid_from, valid_to)`. `valid_to` is None if the row is still valid.

    A delete begins an interval that is `deleted` and holds the last state of the row. An interval that ended
    in its own transaction is empty: it begins when it ends.
    """

    key: Key
    row: Row
    valid_from: datetime
    valid_to: datetime | None
    deleted: bool
    change: Change


@dataclass(frozen=True)
class Log:
    """The first transaction inserts the initial rows, which a dialect may write as a snapshot."""

    tables: tuple[Table, ...]
    transactions: tuple[Transaction, ...]

    def table(self, name: str) -> Table:
        return next(t for t in self.tables if t.full_name == name)

    def changes(self, table: Table) -> list[Change]:
        """Returns the changes of a table in commit order."""
        return [change for _, change in self._by_table[table.full_name]]

    def final_rows(self, table: Table) -> dict[Key, Row]:
        rows: dict[Key, Row] = {}
        for change in self.changes(table):
            if change.operation in {"delete", "key_update"} and change.before is not None:
                del rows[table.key_of(change.before)]
            if change.after is not None:
                rows[table.key_of(change.after)] = change.after
        return rows

    def history(self, table: Table) -> list[Interval]:
        """Returns the intervals in change order; a key update gives two, the deleted one first."""
        steps = [
            (table.key_of(row), row, deleted, transaction.commit_time, change)
            for transaction, change in self._by_table[table.full_name]
            for row, deleted in _outcome(change)
        ]
        ends: dict[Key, datetime] = {}
        intervals = []
        for key, row, deleted, since, change in reversed(steps):
            intervals.append(Interval(key, row, since, ends.get(key), deleted, change))
            ends[key] = since
        return intervals[::-1]

    @cached_property
    def _by_table(self) -> dict[str, list[tuple[Transaction, Change]]]:
        by_table: dict[str, list[tuple[Transaction, Change]]] = {t.full_name: [] for t in self.tables}
        for transaction in self.transactions:
            for change in transaction.changes:
                by_table[change.table.full_name].append((transaction, change))
        return by_table


def _outcome(change: Change) -> Iterator[tuple[Row, bool]]:
    """Yields the rows that a change leaves, each with whether it is deleted."""
    if change.operation in {"delete", "key_update"} and change.before is not None:
        yield change.before, True
    if change.after is not None:
        yield change.after, False


def simulate(seed: int, transactions: int, start: datetime = START, make: MakeValue = other_value) -> Log:
    """Simulates one transaction with the initial rows and `transactions` more; `make` gives their values."""
    simulator = Simulator(seed, start, make)
    simulated = [simulator.transaction(initial=True)]
    simulated.extend(simulator.transaction() for _ in range(transactions))
    return Log(TABLES, tuple(simulated))


class _Rows:
    """The live rows of one table, with random choice in constant time."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.rows: dict[Key, Row] = {}
        self._order: list[Key] = []
        self._place: dict[Key, int] = {}
        # Deleted keys, which may be inserted again.
        self.dead: list[Key] = []

    def put(self, row: Row) -> None:
        key = self.table.key_of(row)
        if key not in self.rows:
            self._place[key] = len(self._order)
            self._order.append(key)
        self.rows[key] = row

    def remove(self, key: Key) -> None:
        del self.rows[key]
        place, last = self._place.pop(key), self._order.pop()
        if last != key:
            self._order[place] = last
            self._place[last] = place
        self.dead.append(key)

    def some(self, rng: Random, count: int) -> list[Row]:
        """Returns at most `count` distinct rows."""
        chosen = {rng.randrange(len(self._order)) for _ in range(count)} if self._order else set()
        return [self.rows[self._order[place]] for place in sorted(chosen)]


class Simulator:
    def __init__(self, seed: int, start: datetime, make: MakeValue) -> None:
        self._rng, self._make = Random(seed), make
        self._now = start.astimezone(UTC)
        # Near overflow in each part, so that even a short log carries over.
        self._lsn = [0xFE, 0xFF00, 1]
        self._tables = {t.full_name: _Rows(t) for t in TABLES}
        self._identity = 0
        self._changes: list[Change] = []
        self._command = 0
        self._serial = 0

    def transaction(self, initial: bool = False, quiet: Collection[str] = ()) -> Transaction:
        """Returns the next transaction. `quiet` names the tables that it must not change."""
        rng = self._rng
        lively = {name: weight for name, weight in _LIVELINESS.items() if name not in quiet}
        self._pause()
        begin_time, begin_lsn = self._now, self._next_lsn()
        self._changes, self._command = [], 0
        if initial:
            for rows in self._tables.values():
                self._insert(rows, _INITIAL_ROWS)
        while not self._changes:
            for _ in range(rng.choice((1, 1, 2, 3, 6))):
                self._statement(lively)
        self._pause()
        return Transaction(begin_time, self._now, begin_lsn, self._next_lsn(), tuple(self._changes))

    def _statement(self, lively: Mapping[str, int]) -> None:
        rng = self._rng
        (name,) = rng.choices(tuple(lively), weights=tuple(lively.values()))
        rows, count = self._tables[name], rng.choice((1, 1, 1, 2, 5))
        kinds = (self._insert, self._update, self._delete, self._update_key, self._come_and_go)
        (kind,) = rng.choices(kinds, weights=(30, 45, 12, 8, 5))
        kind(rows, count)

    def _insert(self, rows: _Rows, count: int) -> None:
        fresh = [self._new_row(rows) for _ in range(count)]
        self._apply(rows, [(None, row) for row in {rows.table.key_of(r): r for r in fresh}.values()])

    def _update(self, rows: _Rows, count: int) -> None:
        table, rng = rows.table, self._rng
        most = rng.choice((1, 2, 3, len(table.free_columns)))
        columns = rng.sample(table.free_columns, rng.randint(1, min(most, len(table.free_columns))))
        self._apply(rows, [(row, self._changed(row, columns)) for row in rows.some(rng, count)])

    def _delete(self, rows: _Rows, count: int) -> None:
        self._apply(rows, [(row, None) for row in rows.some(self._rng, count)])

    def _update_key(self, rows: _Rows, _count: int) -> None:
        if rows.table.identity:
            return
        for row in rows.some(self._rng, 1):
            key = dict(zip(rows.table.key, self._new_key(rows), strict=True))
            columns = self._rng.sample(rows.table.free_columns, self._rng.choice((0, 0, 2)))
            self._apply(rows, [(row, self._changed(row, columns) | key)])

    def _come_and_go(self, rows: _Rows, _count: int) -> None:
        """One key is inserted, deleted and inserted again by three statements of one transaction."""
        first = self._new_row(rows)
        self._apply(rows, [(None, first)])
        self._apply(rows, [(first, None)])
        self._apply(rows, [(None, self._changed(first, rows.table.free_columns))])

    def _apply(self, rows: _Rows, steps: list[tuple[Row | None, Row | None]]) -> None:
        """Applies one statement: its rows share a command id, and each gets its own change LSN."""
        if not steps:
            return
        self._command += 1
        table = rows.table
        for before, after in steps:
            operation: Operation = "insert" if before is None else "delete" if after is None else "update"
            changed: tuple[str, ...] = ()
            if before is not None and after is not None:
                changed = tuple(n for n in table.names if before[n] != after[n])
                if table.key_of(before) != table.key_of(after):
                    operation = "key_update"
            if before is not None and operation != "update":
                rows.remove(table.key_of(before))
            if after is not None:
                rows.put(after)
            self._serial += 1
            lsn = self._next_lsn()
            self._changes.append(
                Change(table, operation, before, after, lsn, self._command, changed, self._serial)
            )

    def _changed(self, row: Row, columns: tuple[Column, ...] | list[Column]) -> Row:
        return row | {c.name: self._make(self._rng, c, row[c.name]) for c in columns}

    def _new_row(self, rows: _Rows) -> Row:
        key = dict(zip(rows.table.key, self._new_key(rows), strict=True))
        row = {c.name: self._make(self._rng, c, ...) for c in rows.table.columns}
        return row | key

    def _new_key(self, rows: _Rows) -> Key:
        """Returns a free key, sometimes one that was deleted before."""
        rng, table = self._rng, rows.table
        while rows.dead and not rng.randrange(4):
            again = rows.dead.pop(rng.randrange(len(rows.dead)))
            if again not in rows.rows:
                return again
        while True:
            self._identity += 1
            kinds = [c for c in table.columns if c.name in table.key]
            # Consecutive numbers; a bigint is above 2^53, where a double would corrupt it.
            number = {"int": self._identity, "bigint": 2**53 + self._identity}
            key = tuple(number.get(c.base) or self._make(rng, c, ...) for c in kinds)
            if key not in rows.rows:
                return key

    def _pause(self) -> None:
        self._now += timedelta(milliseconds=self._rng.choice((0, 0, 3, 47, 900, 15_000)))

    def _next_lsn(self) -> bytes:
        """Returns the next LSN: log file number (4 bytes), block (4) and slot (2), always increasing."""
        lsn = self._lsn
        lsn[2] += self._rng.randint(1, 40)
        if lsn[2] > 0x120:
            lsn[1:] = [lsn[1] + self._rng.randint(1, 64), 1]
        if lsn[1] > 0x10100:
            lsn[:] = [lsn[0] + 1, 0x10, 1]
        return lsn[0].to_bytes(4) + lsn[1].to_bytes(4) + lsn[2].to_bytes(2)
