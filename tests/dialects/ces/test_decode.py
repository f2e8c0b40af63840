"""Properties of every batch of CES messages."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from changeledger.cli.decode import reader
from changeledger.cli.decode.records import Message
from changeledger.dialects.ces import discovery, typed
from changeledger.dialects.ces.discovery import discover, facts, merged
from changeledger.dialects.kernel import EarlierWindows
from tests.dialects.ces.decoding import decoded
from tests.dialects.ces.test_cases import ALL
from tests.dialects.golden import Case

CASES = pytest.mark.parametrize("case", [pytest.param(case, id=case.folder.name) for case in ALL])
Row = dict[str, Any]


def rows(case: Case) -> dict[Any, Row]:
    known = {case.stated.table: case.stated} if case.stated else {}
    batches = decoded(case.messages, case.feed, known, case.stated)
    return {row["source_position"]["offset"]: row for batch in batches for row in batch.to_pylist()}


@CASES
def test_what_is_read_by_types_is_what_is_read_alone(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    by_types = rows(case)

    monkeypatch.setattr(typed, "reader_of", lambda _: lambda *_: None)
    monkeypatch.setattr(discovery, "_usual", lambda _: None)
    assert rows(case) == by_types


@CASES
def test_facts_of_parts_are_the_facts_of_the_whole(case: Case) -> None:
    cut = Random(case.folder.name).randrange(case.messages.num_rows + 1)
    parts = [facts(case.messages.slice(0, cut), {}), facts(case.messages.slice(cut), {})]
    assert merged(parts).equals(merged([facts(case.messages, {})]))
    assert merged(parts[::-1]).equals(merged([facts(case.messages, {})]))


def test_a_change_names_columns_as_the_contract_does() -> None:
    """Messages may write a column name in another case than the contract."""
    (case,) = [case for case in ALL if case.folder.name == "added_column"]
    plan = discover(merged([facts(case.messages, {})]), case.feed, EarlierWindows({}, {}, {}))
    written = plan.tables[0].writer_schema
    columns = tuple(c.model_copy(update={"name": c.name.upper()}) for c in written.columns)
    named = [
        [
            row["changed"]
            for batch in decoded(case.messages, case.feed, {}, contract)
            for row in batch.to_pylist()
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
