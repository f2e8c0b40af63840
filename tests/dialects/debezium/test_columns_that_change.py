"""A message decodes to the same change, whatever type its column has in the window's other messages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

from changeledger.config.feed import Feed
from changeledger.dialects.debezium.dialect import DEBEZIUM
from changeledger.kernels.arrow import MESSAGE
from tests.dialects.debezium.written import field
from tests.dialects.reading import read

FEED = Feed.model_validate(
    {
        "feed": "f", "dialect": "debezium", "database": "d", "connection": "none",
        "source": {"topics": ["*"]}, "tables": [{"table": "dbo.t"}],
    }
)  # fmt: skip
# Prefix of Debezium's parameters for a column's type in the source (`column.propagate.source.type`).
SOURCE = "__debezium.source.column"


def of_source(kind: str, length: int) -> dict[str, Any]:
    return {"parameters": {f"{SOURCE}.type": kind, f"{SOURCE}.length": str(length)}}


def message(number: int, column: Mapping[str, Any], before: Any, after: Any) -> dict[str, Any]:
    """An update of row 1."""
    fields = [{**field("int32"), "optional": False, "field": "id"}, {**column, "field": "c"}]
    rows = [
        {"type": "struct", "optional": True, "field": side, "fields": fields} for side in ("before", "after")
    ]
    source = {
        "connector": "sqlserver", "db": "d", "schema": "dbo", "table": "t", "ts_ms": 1786119900883,
        "commit_lsn": f"0000002a:000003b0:{number:04x}", "change_lsn": "0000002a:000003b0:0001",
        "event_serial_no": 2,
    }  # fmt: skip
    images = {side: {"id": 1, "c": cell} for side, cell in (("before", before), ("after", after))}
    return {
        "schema": {"type": "struct", "fields": rows},
        "payload": {**images, "source": source, "op": "u", "ts_ms": 1786119901883},
    }


def changes(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Decodes a window of these messages and returns its changes."""
    place = {"topic": "s.dbo.t", "partition": 0, "timestamp": None, "key": b'{"id": 1}', "headers": []}
    rows = [{**place, "offset": at, "value": json.dumps(said).encode()} for at, said in enumerate(messages)]
    *_, decoded = read(DEBEZIUM.kernel, pa.RecordBatch.from_pylist(rows, MESSAGE), FEED, {})
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
