"""A message decodes to the same change, whatever type its column has in the window's other messages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from changeledger.dialects.debezium.dialect import DEBEZIUM
from tests.dialects.debezium.decoding import batch, block, event, feed
from tests.dialects.debezium.written import field
from tests.dialects.reading import read

FEED = feed()
# Prefix of Debezium's parameters for a column's type in the source (`column.propagate.source.type`).
SOURCE = "__debezium.source.column"


def of_source(kind: str, length: int) -> dict[str, Any]:
    return {"parameters": {f"{SOURCE}.type": kind, f"{SOURCE}.length": str(length)}}


def message(number: int, column: Mapping[str, Any], before: Any, after: Any) -> dict[str, Any]:
    """An update of row 1."""
    rows = ({"id": 1, "c": cell} for cell in (before, after))
    payload = event("u", *rows, commit_lsn=f"0000002a:000003b0:{number:04x}", event_serial_no=2)
    return {"schema": block({**column, "field": "c"}), "payload": payload}


def changes(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Decodes a window of these messages and returns its changes."""
    raw = batch((json.dumps(said).encode() for said in messages), "s.dbo.t", b'{"id": 1}')
    *_, decoded = read(DEBEZIUM.kernel, raw, FEED, {})
    said = ("disposition", "change_id", "before", "after", "before_unknown_columns", "changed")
    return [{name: row[name] for name in said} for row in decoded.to_pylist()]


MILLIS, MICROS = (
    field(kind, f"io.debezium.time.{name}") for kind, name in (("int32", "Time"), ("int64", "MicroTime"))
)
FIVE, EIGHT = (field("string", **of_source("char", length)) for length in (5, 8))
FIFTY, MAX = (field("string", **of_source("nvarchar", length)) for length in (50, 2147483647))


@pytest.mark.parametrize(
    ("columns", "cells", "text"),
    [
        ((MILLIS, MICROS), (57600007, 57600007000), "16:00:00.007"),
        ((MICROS, MILLIS), (57600007000, 57600007), "16:00:00.007000"),
        ((EIGHT, FIVE), ("abc     ", "abc  "), "abc     "),
        ((FIFTY, MAX), ("abc", "abc"), "abc"),
    ],
)  # fmt: skip
def test_a_change_is_as_its_own_block_says(columns: Any, cells: Any, text: str) -> None:
    """ALTER COLUMN lies between two messages of a window, and the first one is delivered again after it."""
    old, new = (
        message(at, column, None, cell)
        for at, (column, cell) in enumerate(zip(columns, cells, strict=True), 1)
    )
    (alone,) = changes([old])
    assert (alone["disposition"], alone["after"]["c"]) == ("change", text)
    first, second, again = changes([old, new, old])
    assert first == again == alone
    assert second == changes([new])[0]


def test_a_text_that_could_not_be_large_had_a_value() -> None:
    """An old NULL of an `nvarchar(50)` is a known NULL, even if the column later becomes `nvarchar(max)`."""
    old, new = message(1, FIFTY, None, "abc"), message(2, MAX, "abc", "def")
    first, _ = changes([old, new])
    assert (first["before_unknown_columns"], first["changed"]) == (None, ["c"])


def test_a_column_of_another_kind_does_not_narrow_the_others() -> None:
    """A partition without newer messages has the greatest offset, so that the old block is read last."""
    millis, iso = (
        field("int64", "io.debezium.time.Timestamp"),
        field("string", "io.debezium.time.IsoTimestamp"),
    )
    small, large = (
        {
            "schema": block({"type": kind, "field": "n"}, {**column, "field": "c"}),
            "payload": event("c", None, {"id": 1, "n": number, "c": moment}),
        }
        for kind, number, column, moment in (
            ("int32", 7, millis, 1),
            ("int64", 2**40, iso, "1970-01-01T00:00:00.001Z"),
        )
    )
    first, second, _ = changes([small, large, small])
    assert [row["disposition"] for row in (first, second)] == ["change", "change"]
    assert [row["after"]["n"] for row in (first, second)] == [7, 2**40]
