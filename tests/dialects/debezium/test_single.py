"""Reasons and details of unreadable records; which texts are JSON and which are not (RFC 8259)."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from changeledger.dialects.debezium.decode import decode
from changeledger.dialects.debezium.plan import TablePlan
from changeledger.model.contract import Column, Contract
from changeledger.model.source_names import not_of_database
from tests.dialects.debezium.decoding import SOURCE, batch, event, feed

CONTRACT = Contract(
    table="dbo.t",
    columns=(
        Column(name="id", type="int", ordinal=1, key_position=1, nullable=False),
        Column(name="name", type="nvarchar(50)", ordinal=2),
        Column(name="amount", type="decimal(38,10)", ordinal=3),
        Column(name="x", type="float", ordinal=4),
    ),
)
EVENT = event("c", None, {"id": 1, "name": "a"}, event_serial_no=1)


def result(value: bytes | str) -> dict[str, Any]:
    raw = value.encode() if isinstance(value, str) else value
    plan = TablePlan(feed(), CONTRACT, CONTRACT, "window", database="d")
    decoded: dict[str, Any] = decode(batch([None, raw], key=b"k"), plan).to_pylist()[1]
    return decoded


def changed(**members: Any) -> str:
    return json.dumps(EVENT | members)


@pytest.mark.parametrize(
    ("message", "reason", "detail"),
    [
        ("not json" * 100, "not_an_object", ("not json" * 100)[:500]),
        ('{"op": ', "unparseable_json", '{"op": '),
        (changed(after=[1]), "malformed_envelope", changed(after=[1])),
        (b'{"op": "\xff"}', "not_utf8", "the message is not UTF-8"),
        (changed(after={"id": 1, "name": "\ud800"}), "lone_surrogate",
         "an escape \\ud8.. to \\udf.. is half of a surrogate pair"),
        (changed(source=None), "no_source", "the message has no `source`"),
        (changed(op=None), "no_operation", "the message has no `op`"),
        (changed(op="t"), "unknown_operation", "op is t"),
        (changed(source=SOURCE | {"table": "U"}), "table_mismatch", "dbo.U in the topic of dbo.t"),
        (changed(source=SOURCE | {"db": "e"}), "database_mismatch", not_of_database("e", "d")),
        (changed(after=None), "no_after_image", "op is c"),
        (changed(op="d"), "no_before_image", "a delete without `before`"),
        (changed(source=SOURCE | {"change_lsn": "80"}), "malformed_lsn", "change_lsn is 80"),
        (changed(source=SOURCE | {"commit_lsn": None}), "no_position",
         "`source` has neither commit_lsn nor lsn"),
        (changed(source=SOURCE | {"event_serial_no": "one"}), "malformed_serial", "event_serial_no is one"),
        (changed(source=SOURCE | {"ts_ms": None}), "malformed_time", "source.ts_ms is missing"),
        (changed(after={"id": 1, "b": 1, "a": 1}), "unknown_column", "dbo.t has no column b, a"),
        (changed(after={"id": "one", "x": "much"}), "value_does_not_fit",
         "values that do not fit: id int, x float"),
        (changed(after={"id": None}), "null_key", "a column of the key is NULL"),
    ],
)  # fmt: skip
def test_a_record_that_cannot_be_read_says_why(message: bytes | str, reason: str, detail: str) -> None:
    row = result(message)
    assert (row["disposition"], row["reason"], row["detail"]) == ("quarantined", reason, detail)
    assert (row["raw_key"], row["raw_headers"]) == (b"k", [])
    assert row["raw_value"] == (message.encode() if isinstance(message, str) else message)
    assert row["source_position"] == {"source": "t", "partition": 0, "offset": 1, "row": None}
    assert row["change_id"] is row["after"] is None


@pytest.mark.parametrize(
    "message",
    [
        # Not JSON, although some readers accept it: single quotes, invalid numbers, a trailing comma.
        changed().replace('"', "'"),
        changed(after={"id": 1, "x": 1.5}).replace("1.5", "NaN"),
        changed(after={"id": 1, "x": 1.5}).replace("1.5", "01.5"),
        changed() + ",",
    ],
)
def test_what_is_not_json_is_not_read(message: str) -> None:
    assert result(message)["reason"] == "unparseable_json"


def test_a_number_keeps_its_digits() -> None:
    """Numbers without a declared type do not become doubles."""
    digits = "1234567890123456789.0123456789"
    message = (
        changed(after={"id": 1, "name": 2.5, "amount": 3.5}).replace("2.5", "1.10").replace("3.5", digits)
    )
    after = result(message)["after"]
    assert after["name"] == "1.10"
    assert after["amount"] == Decimal(digits)
