"""The history has what the run's changes say, cell by cell, and its intervals join."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from changeledger.audit import applied, suspects
from tests.audit.tables import AT, CONTRACT, Row, batch, key, record, table

PRICE = Decimal("12.5000")
LATER = AT + timedelta(minutes=1)


def image(at: int, price: Decimal | None = PRICE) -> Row:
    return {**key(at), "unit.price": price}


def change(at: int, operation: str, of: Row | None, after: Row | None, **members: Any) -> Row:
    return {
        "change_id": f"id{at}", "operation": operation, "key": of, "after": after, "committed_at": AT,
        "commit_lsn": bytes([at]), "sort_key": bytes([at]), "source_position": record(at), **members,
    }  # fmt: skip


def interval(at: int, operation: str, of: Row, price: Decimal | None, **members: Any) -> Row:
    """An open interval that the change `at` has begun."""
    return {
        **of, "unit.price": price, "_change_id": f"id{at}", "_operation": operation, "_sort_key": bytes([at]),
        "_commit_lsn": bytes([at]), "_committed_at": AT, "_valid_from": AT, "_is_deleted": False, **members,
    }  # fmt: skip


def closed(by_change: int) -> Row:
    return {"_valid_to": AT, "_next_sort_key": bytes([by_change])}


GAP = {"unit.price": "unavailable"}
# Key 1 is inserted and updated by a change without its price; key 2 moves to key 3, which is deleted; the
# snapshot row of key 4 shows what a published interval has, and that of key 5 is new.
CHANGES = [
    change(1, "insert", key(1), image(1)),
    change(2, "update", key(1), image(1, None), after_unknown_columns=GAP),
    change(3, "update", key(3), image(3), previous_key=key(2)),
    change(4, "delete", key(3), None),
    change(5, "snapshot", key(4), image(4)),
    change(6, "snapshot", key(5), image(5, None)),
    change(7, "truncate", None, None),
]
HISTORY = [
    interval(1, "insert", key(1), PRICE, **closed(2)),
    interval(2, "update", key(1), PRICE),
    # A published interval, which the run has ended.
    interval(0, "insert", key(2), PRICE, **closed(3)),
    interval(3, "update", key(2), PRICE, _is_deleted=True),
    interval(3, "update", key(3), PRICE, **closed(4), _previous_key=key(2)),
    interval(4, "delete", key(3), PRICE, _is_deleted=True),
    interval(6, "snapshot", key(5), None),
]


def broken(changes: list[Row], history: list[Row]) -> dict[str, list[str]]:
    """Returns the reasons by change id. All rows that break the rule are of keys that are at fault."""
    of_changes = batch(table(applied.ledger_read(CONTRACT), changes))
    of_history = batch(table(applied.history_read(CONTRACT), history))
    tables = {
        applied.EFFECTS: pa.Table.from_batches([applied.effects(of_changes, CONTRACT)]),
        applied.INTERVALS: pa.Table.from_batches([applied.intervals(of_history, CONTRACT)]),
    }
    reasons: dict[str, list[str]] = {}
    wrong_keys = set()
    for side, rows in tables.items():
        found = applied.broken(tables, side)
        of_rows = rows.take(pa.array(found.at))
        wrong_keys |= {*of_rows.column("hash").to_pylist()}
        for change_id, why in zip(of_rows.column("change_id").to_pylist(), found.why, strict=True):
            reasons.setdefault(change_id, []).append(why)
    hashes = {hashed for part in applied.keys_at_fault(tables) for hashed in part.view("i8").tolist()}
    assert hashes == wrong_keys
    return reasons


def test_what_reconcile_writes_breaks_nothing() -> None:
    assert broken(CHANGES, HISTORY) == {}
    assert broken([], HISTORY[2:4]) == {}
    assert broken([], []) == {}


def without(at: int) -> list[Row]:
    return HISTORY[:at] + HISTORY[at + 1 :]


def but(at: int, **members: Any) -> list[Row]:
    return [row | members if number == at else row for number, row in enumerate(HISTORY)]


DISPLACED, LACKS, UNEQUAL, TWICE, LOOSE = (
    "change's place", "no interval of the change", "other values", "twice", "where no other",
)  # fmt: skip
FAULTS: list[tuple[list[Row], dict[str, list[str]]]] = [
    # An interval is lost: the last of its key, one in between, the half of a key update on each key.
    (without(1), {"id2": [LACKS], "id1": [LOOSE]}),
    (without(0), {"id1": [LACKS]}),
    (without(3), {"id3": [LACKS], "id0": [LOOSE]}),
    (without(4), {"id3": [LACKS]}),
    ([*HISTORY, HISTORY[0]], {"id1": [TWICE, TWICE]}),
    # Another value, NULL, a value where NULL stands, an unknown cell, and a value in the next column.
    (but(0, **{"unit.price": Decimal("1.2500")}), {"id1": [UNEQUAL]}),
    (but(0, **{"unit.price": None}), {"id1": [UNEQUAL]}),
    (but(6, **{"unit.price": PRICE}), {"id6": [UNEQUAL]}),
    (but(6, _unknown_columns=GAP), {"id6": [UNEQUAL]}),
    # What the change did, when, and to which key.
    (but(1, _operation="insert"), {"id2": [LACKS]}),
    (but(1, _committed_at=LATER), {"id2": [LACKS]}),
    (but(1, _commit_lsn=None), {"id2": [LACKS]}),
    (but(3, _is_deleted=False), {"id3": [LACKS]}),
    (but(1, _is_deleted=None), {"id2": [LACKS]}),
    (but(4, _previous_key=None), {"id3": [LACKS]}),
    # A snapshot row may have no interval, but not another one.
    (but(6, _operation="insert"), {"id6": [LACKS]}),
    (without(6), {}),
    # Intervals that do not join: a gap in time, an overlap, another place in the order.
    (but(0, _valid_to=LATER), {"id1": [LOOSE]}),
    (but(1, _valid_from=LATER), {"id1": [LOOSE]}),
    (but(0, _next_sort_key=b"\x09"), {"id1": [LOOSE]}),
    (but(1, _next_sort_key=b"\x09"), {"id2": [LOOSE]}),
    (but(1, _sort_key=b"\x09"), {"id1": [LOOSE], "id2": [DISPLACED]}),
]


@pytest.mark.parametrize(("history", "expected"), FAULTS)
def test_a_fault_in_the_history_is_found(history: list[Row], expected: dict[str, list[str]]) -> None:
    reasons = broken(CHANGES, history)
    assert reasons.keys() == expected.keys()
    for change_id, said in expected.items():
        for words, why in zip(said, reasons[change_id], strict=True):
            assert words in why


def test_a_late_change_that_is_ignored_is_found() -> None:
    late = change(8, "update", key(1), image(1), committed_at=AT - timedelta(hours=1))
    assert [*broken([*CHANGES, late], HISTORY)] == ["id8"]


ROW = interval(6, "snapshot", key(5), PRICE)
OTHERS: list[Row] = [
    {"unit.price": None}, {"unit.price": Decimal("1.2500")}, {"order": 6}, {"_change_id": "id7"},
    {"_operation": "insert"}, {"_sort_key": b"\x07"}, {"_commit_lsn": None}, {"_committed_at": LATER},
    {"_unknown_columns": GAP},
]  # fmt: skip


@pytest.mark.parametrize("cells", OTHERS, ids=lambda cells: next(iter(cells)))
def test_a_current_row_is_its_open_interval_cell_by_cell(cells: Row) -> None:
    def now(row: Row) -> list[Row]:
        rows = batch(table(applied.current_read(CONTRACT), [row]))
        return applied.current(rows, CONTRACT).to_pylist()

    history = batch(
        table(applied.history_read(CONTRACT), [ROW, interval(0, "insert", key(5), None, **closed(6))])
    )
    (opened,) = suspects.opened_by_run(applied.intervals(history, CONTRACT)).to_pylist()
    assert opened.pop("is_alive")
    assert now(ROW) == [opened]
    assert now(ROW | cells) != [opened]
    both_null = {"unit.price": None, "_unknown_columns": {"unit.price": "not_captured"}}
    assert now(ROW | both_null) != now(ROW | {**both_null, "_unknown_columns": GAP})


def test_two_changes_of_a_key_may_have_exchanged_their_places() -> None:
    """A row arrives at a key before another row leaves it, in one statement (ADR 0016)."""
    both = [change(1, "update", key(1), image(1), previous_key=key(2)), change(2, "delete", key(1), None)]
    history = [
        interval(2, "delete", key(1), PRICE, _is_deleted=True, **closed(2)) | {"_sort_key": b"\x01"},
        interval(1, "update", key(1), PRICE, _previous_key=key(2)) | {"_sort_key": b"\x02"},
        interval(1, "update", key(2), PRICE, _is_deleted=True),
    ]
    assert broken(both, history) == {}
