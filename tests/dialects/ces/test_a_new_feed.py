"""When columns no longer fit the published table, the documented remedy works on the same event hub."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from changeledger.config.feed import Feed
from changeledger.dialects.ces.dialect import CES
from changeledger.dialects.kernel import EarlierWindows
from changeledger.kernels.arrow import MESSAGE
from changeledger.kernels.in_memory import InMemory
from changeledger.stages.normalization import reading
from changeledger.stages.normalization.mask_reading import resolved_alone


def event(number: int, types: dict[str, str], key: list[str], row: dict[str, str]) -> bytes:
    """An insert with the members of the page's examples (`tests/cases/ces/page_examples`)."""
    source = {
        "db": "shop", "schema": "dbo", "tbl": "t",
        "cols": [{"name": name, "type": kind, "index": at} for at, (name, kind) in enumerate(types.items())],
        "pkkey": [{"columnname": name, "value": row[name]} for name in key],
        "transaction": {
            "commitlsn": f"0000002C:00000730:{number:04X}", "beginlsn": "0000002C:00000730:0001",
            "sequencenumber": 1, "finalevent": False, "committime": "2026-08-07T16:25:00.883Z",
        },
    }  # fmt: skip
    data = {"eventsource": source, "eventrow": {"old": "{}", "current": json.dumps(row)}}
    envelope = {
        "type": "com.microsoft.SQL.CES.DML.V1", "operation": "INS", "segmentindex": 0, "finalsegment": True,
        "logicalid": f"9c8d4ad2-bf54-4f10-a96f-038af496997f:0000002C00000730{number:04X}:{1:020}",
        "time": "2026-08-07T16:25:00.883Z", "data": json.dumps(data),
    }  # fmt: skip
    return json.dumps(envelope).encode()


def first_window(messages: list[bytes], **stated: Any) -> tuple[list[dict[str, Any]], list[str]]:
    """Returns the after images of a new feed's first window, and the details of refused records."""
    feed = Feed.model_validate(
        {
            "feed": "f", "dialect": "ces", "database": "shop", "connection": "none",
            "source": {"topics": ["hub"]}, "tables": [{"table": "dbo.t", **stated}],
        }
    )  # fmt: skip
    place = {"topic": "hub", "partition": 0, "timestamp": None, "key": None, "headers": []}
    raw = pa.RecordBatch.from_pylist(
        [{**place, "offset": at, "value": value} for at, value in enumerate(messages)], MESSAGE
    )
    window = reading.discovered(CES.kernel, InMemory.of(raw), feed, EarlierWindows({}, {}, {}), "window")
    inputs = reading.inputs(window.records, reading.TableKnowledge({}, resolved_alone))
    rows = [row for table_input in inputs for row in table_input.decoded.collected().to_pylist()]
    refused = [row["detail"] for row in rows if row["disposition"] != "change"]
    return [row["after"] for row in rows if row["disposition"] == "change"], refused


@pytest.mark.parametrize(
    ("old", "new", "values"),
    [
        ("int", "nvarchar(50)", ("5", "x")),
        ("decimal(10,2)", "decimal(10,4)", ("1.25", "1.2345")),
        ("int", "decimal(10,2)", ("5", "1.25")),
    ],
)
def test_a_type_of_another_kind(old: str, new: str, values: tuple[str, str]) -> None:
    """The first window of a new feed holds the table's whole past, in both types."""
    messages = [
        event(at, {"id": "int", "c": kind}, ["id"], {"id": str(at), "c": value})
        for at, (kind, value) in enumerate(zip((old, new), values, strict=True))
    ]
    (row,), (why,) = first_window(messages)
    assert row["id"] == 0
    assert f"from {old} to {new}; publish the table as a new feed whose `columns:` state {new}" in why
    rows, refused = first_window(messages, columns=[{"name": "c", "type": new}])
    assert (len(rows), refused) == (2, [])


def test_another_text_of_the_key() -> None:
    messages = [
        event(at, {"id": kind}, ["id"], {"id": value})
        for at, (kind, value) in enumerate((("char(3)", "abc"), ("char(5)", "abd  ")))
    ]
    _, (why,) = first_window(messages)
    assert why.endswith("publish the table as a new feed whose `columns:` state char(5)")
    rows, refused = first_window(messages, columns=[{"name": "id", "type": "char(5)"}])
    assert (rows, refused) == ([{"id": "abc  "}, {"id": "abd  "}], [])


def test_another_key() -> None:
    types, row = {"id": "int", "part": "int"}, {"id": "1", "part": "1"}
    messages = [event(0, types, ["id"], row), event(1, types, ["id", "part"], row | {"part": "2"})]
    _, (why,) = first_window(messages)
    assert "publish the table as a new feed that states the new key (`key:`)" in why
    rows, refused = first_window(messages, key=["id", "part"])
    assert (rows, refused) == ([{"id": 1, "part": 1}, {"id": 1, "part": 2}], [])
