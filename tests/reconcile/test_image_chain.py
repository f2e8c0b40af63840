"""The image chain: a complete log has no break, and each fault is reported as a break."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import Any, NamedTuple

import pytest

from changeledger.model import change
from changeledger.model.contract import Column, Contract
from changeledger.reconcile import image_chain
from sourcelab import faults
from sourcelab.log import Change, Log, simulate
from sourcelab.tables import CUSTOMERS, ORDERS, PARTS, Key, Table
from tests.ledger_rows import PLAIN, Manner, changes, contract_of, operations, rows, unknown_before
from tests.reconcile.tables import LedgerRow, all_at_once, intervals, ledger, rows_of

PLAIN_TABLES = (CUSTOMERS, ORDERS, PARTS)
# Tables whose column values every tool writes.
VALUED = (CUSTOMERS, PARTS)
NOTES = frozenset({"notes"})
# How the five tools write changes; CES with two settings.
MANNERS = {
    "sqlserver_cdc": Manner(parts_key_updates=True, unsent_before=NOTES),
    "qlik_tables": Manner(key_only_deletes=True, unsent_before=NOTES),
    "debezium": Manner(parts_key_updates=True, unsent=NOTES),
    "ces": Manner(parts_key_updates=True, unsent_before=NOTES),
    "ces without old values": Manner(parts_key_updates=True, before_images=False),
    "qlik_messages": Manner(key_only_deletes=True, unsent_before=NOTES | {"document"}),
}


class Break(NamedTuple):
    change_id: str
    key: Key
    kind: str
    columns: frozenset[str]
    previous: str


def chain_breaks(log: Log, table: Table, manner: Manner = PLAIN) -> set[Break]:
    versions = intervals(rows(log, table, manner), contract_of(table))
    return {
        Break(
            row["_change_id"],
            tuple(row[name] for name in table.key),
            row["_break"]["kind"],
            frozenset(row["_break"]["columns"] or ()),
            row["_break"]["previous_change_id"],
        )
        for row in versions
        if row["_break"] is not None
    }


def reference(log: Log, table: Table, manner: Manner = PLAIN) -> set[Break]:
    """Applies the rule: compares each change in turn with the known row of its key."""
    known: dict[Key, tuple[dict[str, Any] | None, str]] = {}
    breaks = set()

    def ends(key: Key, cells: dict[str, Any], change_id: str) -> None:
        row, previous = known.get(key, ({}, ""))
        if row is None:
            breaks.add(Break(change_id, key, image_chain.ROW_WAS_GONE, frozenset(), previous))
            return
        different = {name for name in cells.keys() & row.keys() if cells[name] != row[name]}
        if different:
            breaks.add(Break(change_id, key, image_chain.CELLS_DIFFER, frozenset(different), previous))

    def begins(key: Key, change_id: str) -> None:
        row, previous = known.get(key, (None, ""))
        if row is not None:
            breaks.add(Break(change_id, key, image_chain.ROW_WAS_THERE, frozenset(), previous))

    for serial, (_, logged) in enumerate(changes(log, table)):
        for part, operation in enumerate(operations(logged, manner)):
            change_id = f"feed-{serial}-{part}"
            old = {} if logged.before is None else logged.before
            cells = {n: old[n] for n in old.keys() - unknown_before(table, operation, manner)}
            if operation == "update" and not manner.before_images:
                cells = {}
            row = logged.after if operation != "delete" else None
            before = table.key_of(old) if operation != "insert" else None
            after = None if row is None else table.key_of(row)
            if before is not None:
                ends(before, cells, change_id)
            if before != after and after is not None:
                begins(after, change_id)
            if before is not None and before != after:
                known[before] = (None, change_id)
            if row is not None and after is not None:
                last = known.get(after, (None, ""))[0]
                cells_after = {n: row[n] for n in row.keys() - manner.unsent}
                known[after] = ({**(last or {}), **cells_after}, change_id)
    return breaks


@pytest.mark.parametrize("name", MANNERS)
def test_a_whole_log_has_no_break(name: str) -> None:
    for number, table in enumerate(PLAIN_TABLES):
        log = simulate(len(PLAIN_TABLES) * list(MANNERS).index(name) + number, 60)
        assert chain_breaks(log, table, MANNERS[name]) == set(), table.name


@pytest.mark.parametrize("name", ["sqlserver_cdc", "qlik_tables"])
def test_a_feed_that_begins_in_mid_stream_has_no_break(name: str) -> None:
    log = simulate(3, 40)
    late = Log(log.tables, log.transactions[8:])
    assert chain_breaks(late, ORDERS, MANNERS[name]) == set()


@pytest.mark.parametrize("seed", range(4))
def test_a_changed_value_breaks_the_next_change_of_its_row(seed: int) -> None:
    log, rng = simulate(seed, 60), Random(seed)
    numbers = [
        n for n in range(1, 30) if all(c.after and c.table in VALUED for c in log.transactions[n].changes)
    ]
    faulty, fault = faults.change_value(log, rng.choice(numbers), rng)
    ((_, wrong),) = fault.changes
    table, lasting = wrong.table, wrong.after
    assert lasting is not None
    table_changes = [logged for _, logged in changes(faulty, table)]
    at = next(n for n, logged in enumerate(table_changes) if logged.serial == wrong.serial)
    key = table.key_of(lasting)
    later = (n for n in range(at + 1, len(table_changes)) if _key_before(table_changes[n]) == key)
    column = frozenset({str(fault.column)})
    expected = {
        Break(f"feed-{n}-0", key, image_chain.CELLS_DIFFER, column, f"feed-{at}-0") for n in [*later][:1]
    }
    assert chain_breaks(faulty, table) == expected == reference(faulty, table)


def test_a_lost_transaction_breaks_what_follows_on_its_keys() -> None:
    for seed in range(2):
        log = simulate(seed, 60)
        faulty, fault = faults.lose(log, 20)
        for table in {logged.table.full_name: logged.table for _, logged in fault.changes}.values():
            expected = reference(faulty, table)
            assert chain_breaks(faulty, table) == expected
            lost = {key for name, key in faults.keys_of(log.transactions[20]) if name == table.full_name}
            assert {broken.key for broken in expected} <= lost


def test_a_lost_update_is_named_by_its_columns() -> None:
    """The lost update's row changes again later."""
    log = simulate(2, 60)
    number, (_, lost) = next(
        (n, (t, t.changes[0]))
        for n, t in enumerate(log.transactions)
        if len(t.changes) == 1 and t.changes[0].operation == "update" and t.changes[0].table in VALUED
        if any(
            _key_before(logged) == _key_before(t.changes[0])
            for x in log.transactions[n + 1 :]
            for logged in x.changes
        )
    )
    faulty, _ = faults.lose(log, number)
    (only,) = chain_breaks(faulty, lost.table)
    assert (only.key, only.kind, only.columns) == (
        _key_before(lost),
        image_chain.CELLS_DIFFER,
        frozenset(lost.changed),
    )


@pytest.mark.parametrize("operation", ["insert", "update"])
def test_a_doubled_change_is_a_break(operation: str) -> None:
    log = simulate(3, 60)
    number = next(
        n
        for n, t in enumerate(log.transactions)
        # The change is repeated after all others.
        if n and [c.operation for c in t.changes] == [operation] and t.changes[0].table in PLAIN_TABLES
    )
    faulty, fault = faults.double(log, number, Random(0))
    ((_, twice),) = fault.changes
    assert twice.after is not None
    table = twice.table
    first, again = (
        n for n, (_, logged) in enumerate(changes(faulty, table)) if logged.serial == twice.serial
    )
    kind = image_chain.ROW_WAS_THERE if operation == "insert" else image_chain.CELLS_DIFFER
    key, columns = table.key_of(twice.after), frozenset(twice.changed)
    expected = Break(f"feed-{again}-0", key, kind, columns, f"feed-{first}-0")
    assert chain_breaks(faulty, table) == {expected} == reference(faulty, table)


@pytest.mark.parametrize(("name", "table"), list(zip(MANNERS, PLAIN_TABLES * 2, strict=True)))
def test_many_faults_in_the_manner_of_every_tool(name: str, table: Table) -> None:
    """Lost and swapped transactions give exactly the breaks of the rule."""
    faulty = simulate(17, 120)
    for number in range(20, 80, 4):
        faulty, _ = faults.lose(faulty, number)
    faulty, _ = faults.swap(faulty, 90)
    expected = reference(faulty, table, MANNERS[name])
    assert expected, "the seed is chosen so"
    assert chain_breaks(faulty, table, MANNERS[name]) == expected


def _key_before(logged: Change) -> Key | None:
    """Returns the key of the row before the change, or None for an insert."""
    return None if logged.before is None else logged.table.key_of(logged.before)


FORMS = Contract(
    table="dbo.t",
    columns=(
        Column(name="id", type="int", ordinal=1, nullable=False, key_position=1),
        Column(name="guid", type="uniqueidentifier", ordinal=2),
        Column(name="code", type="char(5)", ordinal=3),
        Column(name="at", type="datetimeoffset(3)", ordinal=4),
    ),
)
AFTER = ("AB", "x    ", "2026-08-07 16:25:00.120 +02:00")
INSERTED = {"operation": "insert", "after": AFTER}
SNAPSHOT = {"operation": "snapshot", "after": AFTER}
DELETED = {"operation": "delete", "before": AFTER}


def updated(*before: str | None, **members: Any) -> dict[str, Any]:
    return {"operation": "update", "before": before or None, "after": AFTER, **members}


# The first change of a row, its next change, and the resulting break.
CASES: dict[str, tuple[dict[str, Any], dict[str, Any], tuple[str, list[str] | None] | None]] = {
    "the same value in another form": (INSERTED, updated("ab", "x", "2026-08-07 14:25:00.12 +00:00"), None),
    "other values in another form": (
        INSERTED,
        updated("ac", "y", "2026-08-07 16:25:00.12 +00:00"),
        ("cells_differ", ["guid", "code", "at"]),
    ),
    "no before image": (INSERTED, updated(), None),
    "a gap in the before image": (
        INSERTED,
        updated(None, *AFTER[1:], before_unknown_columns={"guid": "unavailable"}),
        None,
    ),
    "a cell that was never known": (
        {**INSERTED, "after": (None, *AFTER[1:]), "after_unknown_columns": {"guid": "unavailable"}},
        updated(*AFTER),
        None,
    ),
    "NULL is a value": (INSERTED, updated(None, *AFTER[1:]), ("cells_differ", ["guid"])),
    "a snapshot finds what it finds": (INSERTED, {**SNAPSHOT, "after": ("C", "z", None)}, None),
    "behind a snapshot": (SNAPSHOT, updated(*AFTER), None),
    "another value behind a snapshot": (
        SNAPSHOT,
        updated(AFTER[0], "z", AFTER[2]),
        ("cells_differ", ["code"]),
    ),
    "inserted twice": (INSERTED, INSERTED, ("row_was_there", None)),
    "inserted behind a snapshot": (SNAPSHOT, INSERTED, ("row_was_there", None)),
    "inserted again": (DELETED, INSERTED, None),
    "deleted": (INSERTED, DELETED, None),
    "deleted with another value": (
        INSERTED,
        {**DELETED, "before": ("C", *AFTER[1:])},
        ("cells_differ", ["guid"]),
    ),
    "deleted with its key alone": (
        INSERTED,
        {
            **DELETED,
            "before": (None,) * 3,
            "before_unknown_columns": dict.fromkeys(("guid", "code", "at"), "unavailable"),
        },
        None,
    ),
    "deleted twice": (DELETED, DELETED, ("row_was_gone", None)),
    "updated when it was gone": (DELETED, updated(*AFTER), ("row_was_gone", None)),
    "moved onto a row": (INSERTED, updated(*AFTER, previous_key=(99,)), ("row_was_there", None)),
}


def rows_for(sequences: Iterable[Sequence[dict[str, Any]]]) -> list[LedgerRow]:
    """Ledger rows, key by key. The key is the index of its sequence."""
    return [
        {
            "change_id": f"{key}.{n}", "sort_key": bytes([n]), "key": (key,),
            "source_position": ("t", 0, n, None),
            **row, **{side: (key, *row[side]) for side in ("before", "after") if row.get(side)},
        }
        for key, steps in enumerate(sequences)
        for n, row in enumerate(steps)
    ]  # fmt: skip


def test_what_is_a_break() -> None:
    versions = intervals(rows_for((first, second) for first, second, _ in CASES.values()), FORMS)
    names = list(CASES)
    breaks = {
        names[row["id"]]: (row["_break"]["kind"], row["_break"]["columns"])
        for row in versions
        if row["_break"]
    }
    assert breaks == {name: case[2] for name, case in CASES.items() if case[2] is not None}


def test_a_break_is_shown_with_both_images() -> None:
    before = updated(
        "AC", None, AFTER[2], before_unknown_columns={"code": "unavailable"}, flags=["order_ambiguous"]
    )
    history = all_at_once(ledger(rows_for([(INSERTED, before)]), FORMS), FORMS)
    (row,) = rows_of(history.breaks)
    assert row == {
        "window_id": "run",
        "table": "dbo.t",
        "key": '{"id":0}',
        "change_id": "0.1",
        "operation": "update",
        "sort_key": b"\1",
        "commit_lsn": None,
        "committed_at": None,
        "previous_change_id": "0.0",
        "previous_sort_key": b"\0",
        "kind": "cells_differ",
        "columns": ["guid"],
        "known": {"id": "0", "guid": "AB", "code": "x    ", "at": AFTER[2]},
        "before": {"id": "0", "guid": "AC", "code": "(unavailable)", "at": AFTER[2]},
        "flags": ["order_ambiguous"],
        "source_position": {"source": "t", "partition": 0, "offset": 1, "row": None},
    }
    assert list(row) == [name for name, _ in change.BREAK_COLUMNS]
