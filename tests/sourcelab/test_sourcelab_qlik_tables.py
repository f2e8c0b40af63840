"""Simulated Qlik change tables agree with the page on change tables."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from sourcelab import qlik_tables
from sourcelab.log import Change, Log, Transaction, simulate
from sourcelab.qlik_tables import Task
from sourcelab.tables import CUSTOMERS, WIDE, Table
from tests.sourcelab import customer
from tests.sourcelab.customer import NOON

COMMIT = bytes.fromhex("00000027000007580005")
ROW = {**customer.ROW, "created_at": datetime(1970, 1, 1), "seen_at": None}
NOTHING = dict.fromkeys(ROW)


def change(operation: Any, after: Any, changed: tuple[str, ...] = (), table: Table = CUSTOMERS) -> Change:
    before = None if operation == "insert" else ROW
    return Change(table, operation, before, after, bytes.fromhex("00000027000007580003"), 4, changed, 41)


def reported(logged: Change, task: Task = Task()) -> list[dict[str, Any]]:  # noqa: B008 - a frozen value
    rows = qlik_tables.change_rows(Transaction(NOON, NOON, COMMIT, COMMIT, (logged,)), task)
    return [dict(zip((*task.header, *CUSTOMERS.names), row, strict=True)) for _, row in rows]


def test_an_insert() -> None:
    (row,) = reported(change("insert", ROW))
    assert row == ROW | {
        # A second before the commit, and the 41st change.
        "change_seq": "2024030111595912" + "0000000000000000041",
        "change_oper": "I",
        # Seven header columns, then nine set bits: 7 to 15.
        "change_mask": "FF80",
        "stream_position": "00000027:00000758:0005:00000027000007580003",
        "operation": "INSERT",
        "transaction_id": "00000027000007580005            ",
        "timestamp": datetime(2024, 3, 1, 12, 0, 0, 125_000),
    }


def test_a_delete_holds_its_key() -> None:
    (row,) = reported(change("delete", None))
    assert {name: row[name] for name in ROW} == NOTHING | {"id": 7}
    assert (row["change_oper"], row["operation"], row["change_mask"]) == ("D", "DELETE", "80")


@pytest.mark.parametrize(
    ("operation", "after", "changed", "mask"),
    [
        ("update", {"name": "Bo"}, ("name",), "0100"),
        ("update", {"name": "Bo", "notes": None}, ("name", "notes"), "8100"),
        ("key_update", {"id": 8}, ("id",), "80"),
        ("key_update", {"id": 8, "email": "x"}, ("id", "email"), "0280"),
    ],
)
def test_an_update_is_two_rows_of_one_change_seq(
    operation: str, after: dict[str, Any], changed: tuple[str, ...], mask: str
) -> None:
    # A change with an even number has its large values in both rows.
    before, now = reported(replace(change(operation, ROW | after, changed), serial=42))
    assert (before["change_oper"], before["operation"], before["change_mask"]) == ("B", "BEFOREIMAGE", "")
    assert (now["change_oper"], now["operation"], now["change_mask"]) == ("U", "UPDATE", mask)
    assert before["change_seq"] == now["change_seq"]
    assert before["transaction_id"] == now["transaction_id"]
    assert {name: before[name] for name in ROW} == ROW
    assert {name: now[name] for name in ROW} == ROW | after


@pytest.mark.parametrize(
    ("operation", "changed", "notes"), [("update", ("name",), None), ("key_update", ("id",), "long")]
)
def test_an_update_of_odd_number_lacks_the_large_values_that_it_left_alone(
    operation: str, changed: tuple[str, ...], notes: str | None
) -> None:
    assert [row["notes"] for row in reported(change(operation, ROW, changed))] == [notes, notes]


@pytest.mark.parametrize(
    ("letter", "changed", "header", "bits"),
    [
        ("U", ("c99",), 7, 1 << 106),
        ("U", ("c01",), 3, 1 << 4),
        ("U", ("c52", "c53"), 8, (1 << 60) + (1 << 61)),
        ("D", (), 8, 1 << 8),
        ("B", ("c01",), 7, 0),
        ("I", (), 7, ((1 << 100) - 1) << 7),
    ],
)
def test_a_mask_counts_the_header(letter: str, changed: tuple[str, ...], header: int, bits: int) -> None:
    assert qlik_tables.mask(change("update", ROW, changed, WIDE), letter, header) == bits


def test_binary_masks_begin_with_the_lowest_byte() -> None:
    task = Task(masks="binary", header=("change_seq", "change_oper", "change_mask"))
    assert [row["change_mask"] for row in reported(change("delete", None), task)] == [b"\x08"]
    # Bits 4 and 11: byte 0 has 10, byte 1 has 08.
    rows = reported(change("update", ROW | {"name": "Bo", "notes": ""}, ("name", "notes")), task)
    assert [row["change_mask"] for row in rows] == [b"", b"\x10\x08"]


def test_a_task_stores_what_it_is_asked_to() -> None:
    task = Task(prefix="hdr ", header=("change_seq", "operation"))
    assert task.columns == {"hdr change_seq": "varchar(35)", "hdr operation": "varchar(12)"}
    assert list(reported(change("delete", None), task)[0])[:3] == ["change_seq", "operation", "id"]


def test_change_seqs_grow_and_have_every_change() -> None:
    log: Log = simulate(9, 200)
    rows = [
        row
        for transaction in log.transactions
        for _, row in qlik_tables.change_rows(transaction, Task(header=("change_seq", "change_oper")))
    ]
    seqs = [row[0] for row in rows]
    assert seqs == sorted(seqs)
    assert {len(seq) for seq in seqs} == {35}
    assert len({row[:2] for row in rows}) == len(rows)
    changes = [c.operation for t in log.transactions for c in t.changes]
    moved = changes.count("update") + changes.count("key_update")
    assert [sum(row[1] == letter for row in rows) for letter in "IDBU"] == [
        changes.count("insert"), changes.count("delete"), moved, moved,
    ]  # fmt: skip
