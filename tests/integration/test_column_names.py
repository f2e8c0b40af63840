"""Columns of any name that SQL Server takes arrive in the published tables, and can be added to them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sourcelab.messages import Message
from sourcelab.services import KafkaBroker
from tests.integration.line import carry, debezium_feed, lake_name, rows

pytestmark = pytest.mark.integration

TABLE, TOPIC = "dbo.named", "named.dbo.named"
NAMES = (
    'q"q',
    "\\",
    "\\u0041",
    "a\nb",
    "a\0b",
    "a.b",
    "`",
    "'",
    " ",
    "${x}",
    "{}",
    "%s",
    "日本",
    "🙂",
    "x" * 128,
)
ADDED = ('\n"added\\"', "`;--", "b\0")


def change(op: str, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None, at: int) -> Message:
    names: Sequence[str] = tuple(after or before or {})
    fields = [{"type": "string", "optional": True, "field": name} for name in names[1:]]
    fields = [{"type": "int32", "optional": False, "field": "id"}, *fields]
    source = {
        "connector": "sqlserver", "ts_ms": 1_786_119_900_000 + at,
        "db": "shop", "schema": "dbo", "table": "named",
        "commit_lsn": f"0000002a:000003b0:{at:04x}", "change_lsn": f"0000002a:000003b0:{at:04x}",
    }  # fmt: skip
    event = {"before": before, "after": after, "source": source, "op": op, "ts_ms": source["ts_ms"]}
    block = {"type": "struct", "fields": [{"type": "struct", "field": "after", "fields": fields}]}
    key = json.dumps({"id": (after or before or {})["id"]}).encode()
    value = json.dumps({"schema": block, "payload": event}).encode()
    return Message(TOPIC, key, value, (), 1_786_119_900_000 + at)


def test_columns_of_any_name(
    spark: SparkSession, kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = debezium_feed("named", kafka, "named", monkeypatch, tables=[{"table": TABLE}])
    first = {key: {"id": key, **{name: f"{key} {name}" for name in NAMES}} for key in (1, 2)}
    second = {**first[1], "a\nb": "changed", **{name: f"new {name}" for name in ADDED}}
    end = carry(spark, kafka, feed, [change("c", None, row, key) for key, row in first.items()])
    carry(spark, kafka, feed, [change("u", first[1], second, 3), change("d", first[2], None, 4)], end)
    names = ("id", *NAMES, *ADDED)
    published = [{name: row[name] for name in names} for row in rows(spark, lake_name(feed, TABLE))]
    assert published == [second]
    ledger = {row["sort_key"][:10].hex(): row for row in rows(spark, lake_name(feed, TABLE, "_changes"))}
    update = ledger["0000002a000003b00003"]
    assert update["after"].asDict() == second
    assert update["changed"] == ["a\nb"]
    assert set(update["before_unknown_columns"]) == set(ADDED)
    assert {name: update["before"][name] for name in NAMES} == {name: first[1][name] for name in NAMES}
    history = [row.asDict() for row in rows(spark, lake_name(feed, TABLE, "_history"))]
    assert sorted((row["id"], row["a\nb"], row["_is_deleted"]) for row in history) == [
        (1, "1 a\nb", False), (1, "changed", False), (2, "2 a\nb", False), (2, "2 a\nb", True),
    ]  # fmt: skip
