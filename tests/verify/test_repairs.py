"""Planned repairs as changes: the plan's texts are published unchanged, or the repair is quarantined."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from changeledger.config.feed import Feed
from changeledger.dialects.messages import message_rows
from changeledger.dialects.plan import TablePlan
from changeledger.model import change
from changeledger.model.contract import Column, Contract
from changeledger.verify import repairs
from changeledger.verify.repairs import RAW

# For each lake type, values at its limits and values that careless texts would lose, with their texts by
# Spark's CAST; bytes as 0x and hex.
VALUES: dict[str, list[tuple[str, Any]]] = {
    "bit": [("true", True), ("false", False)],
    "tinyint": [("255", 255), ("0", 0)],
    "smallint": [("-32768", -32768)],
    "bigint": [("9007199254740993", 9007199254740993), ("-9223372036854775808", -(2**63))],
    "real": [("0.1", 0.10000000149011612), ("-3.4028235E38", -3.4028234663852886e38)],
    "float": [("0.1", 0.1), ("4.9E-324", 5e-324), ("1.0E7", 1e7)],
    "decimal(38,10)": [
        ("-1234567890123456789012345678.0123456789", Decimal("-1234567890123456789012345678.0123456789")),
        ("0.0000000000", Decimal("0.0000000000")),
    ],
    "money": [("-922337203685477.5808", Decimal("-922337203685477.5808"))],
    "date": [("0001-01-01", date(1, 1, 1)), ("9999-12-31", date(9999, 12, 31))],
    "datetime": [("2026-08-07 16:25:00.883", datetime(2026, 8, 7, 16, 25, 0, 883000))],
    "smalldatetime": [("2026-08-07 16:25:00", datetime(2026, 8, 7, 16, 25))],
    # Other databases keep more digits than the type. A repair removes none of them.
    "datetime2(3)": [("2026-08-07 16:25:00.883333", datetime(2026, 8, 7, 16, 25, 0, 883333))],
    "datetime2(6)": [
        ("0001-01-01 00:00:00", datetime(1, 1, 1)),
        ("9999-12-31 23:59:59.999999", datetime(9999, 12, 31, 23, 59, 59, 999999)),
    ],
    "datetime2(7)": [("2026-08-07 16:25:00.8833333", "2026-08-07 16:25:00.8833333")],
    "nvarchar(max)": [(text, text) for text in ("", "  with blanks  ", "Zoë 😀", "null")],
    "char(10)": [("a         ", "a         "), ("a", "a")],
    "varbinary(max)": [("0x", b""), ("0x00FF", b"\x00\xff"), ("0x3078", b"0x")],
}
CONTRACT = Contract(
    table="dbo.all_types",
    columns=(
        Column(name="id", type="int", ordinal=1, key_position=1),
        *(Column(name=kind, type=kind, ordinal=at) for at, kind in enumerate(VALUES, 2)),
    ),
)
FEED = Feed.model_validate(
    {
        "feed": "cdc", "dialect": "sqlserver_cdc", "database": "shop", "connection": "shop", "source": {},
        "tables": [{"table": "dbo.all_types"}],
    }
)  # fmt: skip
SINCE = datetime(2026, 8, 7, 16, 25, tzinfo=UTC)
Image = dict[str, str | None]


def planned(operation: str, before: Image | None, after: Image | None, **others: Any) -> dict[str, Any]:
    """A row of `RAW`, with a planned repair."""
    return {
        "window_id": "earlier",
        "source_position": {"source": "a proof", "row": b'{"id":1}'},
        "table": CONTRACT.table,
        "proof_id": "a proof",
        "operation": operation,
        "before": before and list(before.items()),
        "after": after and list(after.items()),
        "since": SINCE,
        **others,
    }


def decoded(*plans: dict[str, Any], contract: Contract = CONTRACT) -> list[dict[str, Any]]:
    raw = pa.RecordBatch.from_pylist(list(plans), RAW)
    batch = repairs.decode(raw, TablePlan(FEED, contract, contract, "window"))
    assert batch.schema == message_rows.decoded_schema(contract)
    batch.validate(full=True)
    rows: list[dict[str, Any]] = batch.to_pylist()
    return rows


@pytest.mark.parametrize("kind", VALUES)
def test_every_type_comes_back_from_the_text_of_the_plan(kind: str) -> None:
    cells = [*VALUES[kind], (None, None)]
    plans = [planned("insert", None, {"id": str(at), kind: text}) for at, (text, _) in enumerate(cells)]
    changes = decoded(*plans)
    assert [row["disposition"] for row in changes] == [change.CHANGE] * len(cells)
    assert [row["after"][kind] for row in changes] == [value for _, value in cells]
    assert [row["key"]["id"] for row in changes] == list(range(len(cells)))
    assert not any(kind in dict(row["after_unknown_columns"]) for row in changes), "NULL is a value, too"


def test_a_repair_is_flagged_and_has_its_proof_for_its_transaction() -> None:
    (row,) = decoded(planned("insert", None, {"id": "2"}))
    expected = {
        "operation": "insert", "key": {"id": 2}, "previous_key": None, "before": None,
        "before_unknown_columns": None, "changed": None, "mask": None, "commit_lsn": None,
        "change_lsn": None, "event_serial_no": None,
        "committed_at": SINCE, "transaction_id": "a proof", "flags": [change.REPAIRED],
        "feed": "cdc", "dialect": "sqlserver_cdc", "window_id": "window", "paired_source_position": None,
        "source_position": {"source": "a proof", "partition": None, "offset": None, "row": b'{"id":1}'},
        "disposition": "change", "reason": None, "detail": None,
        "raw_key": None, "raw_value": None, "raw_headers": None,
    }  # fmt: skip
    assert {name: row[name] for name in expected} == expected
    assert len(row["change_id"]) == 32


def test_a_repair_stands_behind_the_change_it_follows() -> None:
    """A repair precedes all later changes. A key without a change begins with its repair."""
    behind, first = decoded(
        planned("delete", {"id": "1"}, None, follows=b"\x01\x02"), planned("insert", None, {"id": "2"})
    )
    assert behind["sort_key"] == b"\x01\x02\xff"
    assert first["sort_key"] == b"\x00"


def test_an_update_says_what_it_changes_and_what_it_does_not_know() -> None:
    (row,) = decoded(
        planned(
            "update",
            {"id": "1", "bit": "true", "date": None, "money": "1.0000"},
            {"bit": "false", "id": "1", "date": None},
        )
    )
    assert (row["before"]["bit"], row["after"]["bit"], row["changed"]) == (True, False, ["bit"])
    unknown = dict.fromkeys(set(CONTRACT.names) - {"id", "bit", "date"}, change.NOT_CAPTURED)
    assert dict(row["after_unknown_columns"]) == unknown
    assert dict(row["before_unknown_columns"]) == {n: state for n, state in unknown.items() if n != "money"}


def test_the_key_of_a_row_that_goes_is_that_of_its_image_before() -> None:
    (row,) = decoded(planned("delete", {"id": "3"}, None))
    assert (row["key"], row["before"]["id"], row["after"], row["changed"]) == ({"id": 3}, 3, None, None)


def test_computed_columns_are_not_used() -> None:
    contract = CONTRACT.with_computed({"bit"})
    (row,) = decoded(planned("insert", None, {"id": "1", "bit": "true"}), contract=contract)
    assert row["after"]["bit"] is None
    assert dict(row["after_unknown_columns"])["bit"] == change.NOT_CAPTURED
    (gone,) = decoded(planned("delete", {"id": "1", "bit": "true"}, None), contract=contract)
    assert gone["before"]["bit"] is None
    assert dict(gone["before_unknown_columns"])["bit"] == change.NOT_CAPTURED


def test_each_column_of_a_key_has_a_value() -> None:
    columns = [
        c.model_copy(update={"key_position": c.ordinal}) if c.ordinal < 4 else c for c in CONTRACT.columns
    ]
    whole = {"id": "1", "bit": "true", "tinyint": "0"}
    contract = CONTRACT.model_copy(update={"columns": tuple(columns)})
    for name in whole:
        (row,) = decoded(planned("insert", None, whole | {name: None}), contract=contract)
        assert (row["disposition"], row["reason"]) == (change.QUARANTINED, "null_key")
    (row,) = decoded(planned("insert", None, whole), contract=contract)
    assert row["key"] == {"id": 1, "bit": True, "tinyint": 0}


BAD: list[tuple[str, str, dict[str, Any]]] = [
    ("value_does_not_fit", "values that do not fit: date date",
     planned("insert", None, {"id": "3", "date": "soon"})),
    ("value_does_not_fit", "values that do not fit: tinyint tinyint, real real",
     planned("insert", None, {"id": "3", "tinyint": "256", "real": "NaN", "bit": "true"})),
    ("value_does_not_fit", "values that do not fit: varbinary(max) varbinary(max)",
     planned("delete", {"id": "3", "varbinary(max)": "0xG"}, None)),
    ("unknown_column", "dbo.all_types has no column gone, BIT",
     planned("update", {"id": "3", "gone": "1", "BIT": "true"}, {"id": "x", "new": None})),
    ("unknown_column", "dbo.all_types has no column new", planned("insert", None, {"id": "3", "new": "1"})),
    ("null_key", "a column of the key is NULL", planned("insert", None, {"bit": "true"})),
    ("null_key", "a column of the key is NULL", planned("insert", None, None)),
]  # fmt: skip


@pytest.mark.parametrize(("reason", "detail", "plan"), BAD)
def test_a_plan_that_does_not_fit_the_table_is_quarantined(
    reason: str, detail: str, plan: dict[str, Any]
) -> None:
    good = planned("delete", {"id": "4"}, None)
    first, refused, last = decoded(good, plan, good)
    assert first == last
    assert (first["disposition"], first["key"]) == ("change", {"id": 4})
    assert (refused["disposition"], refused["reason"], refused["detail"]) == ("quarantined", reason, detail)
    assert (refused["source_position"], refused["change_id"], refused["flags"]) == (
        first["source_position"],
        None,
        None,
    )
    said = {"table": "dbo.all_types", "proof_id": "a proof", "operation": plan["operation"]}
    sides = {side: dict(plan[side]) for side in ("before", "after") if plan[side] is not None}
    assert json.loads(refused["raw_value"]) == {**said, **sides}


def test_there_may_be_no_repairs() -> None:
    assert decoded() == []


def test_a_batch_may_begin_anywhere() -> None:
    plans = [planned("insert", None, {"id": str(at), "bit": "true"}) for at in range(3)]
    raw = pa.RecordBatch.from_pylist([planned("insert", None, {"gone": None}), *plans], RAW)
    batch = repairs.decode(raw.slice(1), TablePlan(FEED, CONTRACT, CONTRACT, "window"))
    assert batch.to_pylist() == decoded(*plans)
