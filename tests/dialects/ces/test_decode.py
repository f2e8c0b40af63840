"""Decodes CES messages whose columns differ from the contract's, or from their images."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from changeledger.cli.decode import reader
from changeledger.cli.decode.records import Message
from changeledger.dialects.ces import positions, sides
from changeledger.dialects.ces.dialect import CES
from changeledger.dialects.ces.discovery import discover, facts, merged
from changeledger.dialects.kernel import EarlierWindows
from changeledger.model.sql_type import SqlType
from tests.dialects.golden import cases
from tests.dialects.reading import decoded


def test_a_change_names_columns_as_the_contract_does() -> None:
    """Messages may write a column name in another case than the contract."""
    (case,) = [case for case in cases("ces") if case.folder.name == "added_column"]
    plan = discover(merged([facts(case.messages, {})]), case.feed, EarlierWindows({}, {}, {}))
    written = plan.tables[0].writer_schema
    columns = tuple(c.model_copy(update={"name": c.name.upper()}) for c in written.columns)
    named = [
        [
            row["changed"]
            for batch in decoded(CES.kernel, case.messages, case.feed, contract)
            for row in batch.to_pylist()
            if row["disposition"] == "change"
        ]
        for contract in (written, written.model_copy(update={"columns": columns}))
    ]
    assert any(named[0])
    assert named[1] == [changed and [name.upper() for name in changed] for changed in named[0]]


OLD, NEW = [("id", "int")], [("id", "int"), ("body", "nvarchar(max)")]


def message(operation: str, columns: list[tuple[str, str]], **images: Any) -> Message:
    source = {
        "schema": "dbo", "tbl": "t", "pkkey": [{"columnname": "id", "value": "1"}],
        "cols": [{"name": name, "type": kind, "index": at} for at, (name, kind) in enumerate(columns)],
    }  # fmt: skip
    value = {
        "type": "com.microsoft.SQL.CES.DML.V1", "time": "2026-08-07T16:25:00.883Z", "operation": operation,
        "logicalid": "g:0000002A000003B00005:00000000000000000001",
        "data": {"eventsource": source, "eventrow": images},
    }  # fmt: skip
    return Message("t", 0, 0, None, None, json.dumps(value).encode(), [])


@pytest.mark.parametrize(
    ("columns", "old", "unknown"),
    [
        # What `cols` say is what the images have (Microsoft's page on the JSON message format, `cols`): the
        # table had no such column yet.
        (OLD, {"id": "1"}, "not_captured"),
        # It had one, and its old large values are not sent (`@include_old_lob_values`).
        (NEW, {"id": "1"}, "unavailable"),
        (NEW, {"id": "1", "body": None}, "unavailable"),
        # Nobody knows.
        ([], {"id": "1"}, "unavailable"),
    ],
)
def test_a_large_column_that_a_delete_lacks(
    columns: list[tuple[str, str]], old: dict[str, Any], unknown: str
) -> None:
    sent = [message("DEL", columns, old=old), message("INS", NEW, current={"id": "2", "body": "x"})]
    feed = reader.feed_of("ces", sent)
    deleted, _ = reader.results(feed, sent, {})
    assert deleted["operation"] == "delete"
    assert deleted["before_unknown_columns"] == {"body": unknown}


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        # Offsets as RFC 3339 writes them (CloudEvents, `time`); none is more than 18 hours.
        ("2026-08-07T16:25:00.8833333+05:30", "2026-08-07T10:55:00.883333Z"),
        ("2026-08-07T16:25:00-03:30", "2026-08-07T19:55:00Z"),
        ("2026-08-07T16:25:00-18:00", "2026-08-08T10:25:00Z"),
        ("2026-08-07T16:25:00+18:01", None),
        ("2026-08-07T16:25:00+05:60", None),
    ],
)
def test_a_time_is_one_moment(text: str, moment: str | None) -> None:
    since = moment and (datetime.fromisoformat(moment) - datetime(1970, 1, 1, tzinfo=UTC))
    assert positions.instant(text) == (since and since // timedelta(microseconds=1))


@pytest.mark.parametrize(
    ("text", "value"), [("/12/", None), ("/w==", b"\xff"), ("AAA/", b"\0\0?"), ("0x5B40", b"[@")]
)
def test_a_path_of_a_hierarchyid_is_not_base64(text: str, value: bytes | None) -> None:
    assert sides.reader(SqlType.parse("hierarchyid"), "any")(text) == value
