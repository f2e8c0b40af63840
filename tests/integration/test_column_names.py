"""Names that SQL Server allows: columns of any name, and tables whose names differ only in case."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from pyspark.sql import SparkSession

from changeledger.config.feed import Feed
from sourcelab.messages import Message
from sourcelab.services import KafkaBroker
from tests.integration.line import carry, debezium_feed, lake_name, rows

pytestmark = pytest.mark.integration

TABLE = "dbo.named"
NAMES = (
    'q"q', "\\", "\\u0041", "a\nb", "a\0b", "a.b", "`", "'", " ", "${x}", "{}", "%s", "日本", "🙂", "x" * 128
)  # fmt: skip
# Rules for columns with ordinary names, except one.
PUBLISH = {"mail": {"hash": True, "rename": "person"}, "no.te": "drop", "id": {"cast": "bigint"}}
SECRET = "a key for hashes that no test has"
ADDED = ('\n"added\\"', "`;--", "b\0")


def hashed(text: str) -> str:
    return hmac.digest(SECRET.encode(), text.encode(), hashlib.sha256).hex()


def change(
    op: str, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None, at: int, table: str = TABLE
) -> Message:
    names: Sequence[str] = tuple(after or before or {})
    fields = [{"type": "string", "optional": True, "field": name} for name in names[1:]]
    fields = [{"type": "int32", "optional": False, "field": "id"}, *fields]
    source = {
        "connector": "sqlserver", "ts_ms": 1_786_119_900_000 + at,
        "db": "shop", "schema": "dbo", "table": table.removeprefix("dbo."),
        "commit_lsn": f"0000002a:000003b0:{at:04x}", "change_lsn": f"0000002a:000003b0:{at:04x}",
    }  # fmt: skip
    event = {"before": before, "after": after, "source": source, "op": op, "ts_ms": source["ts_ms"]}
    block = {"type": "struct", "fields": [{"type": "struct", "field": "after", "fields": fields}]}
    key = json.dumps({"id": (after or before or {})["id"]}).encode()
    value = json.dumps({"schema": block, "payload": event}).encode()
    return Message(f"named.{table}", key, value, (), 1_786_119_900_000 + at)


@pytest.mark.long
def test_names(spark: SparkSession, kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The feed writes one table's name in another case: the first variant that it reads is that table."""
    monkeypatch.setenv("CHANGELEDGER_HASH_KEY", SECRET)
    tables = [{"table": TABLE, "publish": {"columns": PUBLISH}}, {"table": "dbo.CASED"}]
    feed = debezium_feed("named", kafka, "named", monkeypatch, tables=tables)
    first = {key: {"id": key, **{name: f"{key} {name}" for name in NAMES}} for key in (1, 2)}
    second = {**first[1], "a\nb": "changed", **{name: f"new {name}" for name in ADDED}}
    private = [{"mail": f"{number}@shop", "no.te": f"note {number}"} for number in (1, 2, 3)]
    inserted = [{**first[key], **private[key - 1]} for key in (1, 2)]
    updated = {**second, **private[2]}
    in_capitals, in_lower_case = ({"id": 1, "of": name} for name in ("Cased", "cased"))
    inserts = [change("c", None, row, key) for key, row in enumerate(inserted, 1)]
    end = carry(spark, kafka, feed, [*inserts, change("c", None, in_capitals, 1, "dbo.Cased")])
    later = [
        change("u", inserted[0], updated, 3),
        change("d", inserted[1], None, 4),
        change("u", in_capitals, in_lower_case, 2, "dbo.cased"),
        change("d", in_lower_case, None, 3, "dbo.cased"),
    ]
    carry(spark, kafka, feed, later, end)
    for key in (1, 2):
        first[key]["person"] = hashed(f"{key}@shop")
    second["person"] = hashed("3@shop")
    check_columns(spark, feed, first, second)
    check_table_of_another_case(spark, feed)


def check_columns(
    spark: SparkSession, feed: Feed, first: Mapping[int, Mapping[str, Any]], second: Mapping[str, Any]
) -> None:
    """Columns of any name are published, and their `publish:` rules hold in all three tables."""
    current = rows(spark, lake_name(feed, TABLE))
    published = [{name: v for name, v in row.asDict().items() if not name.startswith("_")} for row in current]
    assert published == [second]
    assert dict(spark.table(lake_name(feed, TABLE)).dtypes)["id"] == "bigint"
    ledger = {row["sort_key"][:10].hex(): row for row in rows(spark, lake_name(feed, TABLE, "_changes"))}
    update = ledger["0000002a000003b00003"]
    assert update["after"].asDict() == second
    assert sorted(update["changed"]) == ["a\nb", "person"]
    assert set(update["before_unknown_columns"]) == set(ADDED)
    assert {name: update["before"][name] for name in first[1]} == first[1]
    history = [row.asDict() for row in rows(spark, lake_name(feed, TABLE, "_history"))]
    assert sorted((row["id"], row["a\nb"], row["_is_deleted"]) for row in history) == [
        (1, "1 a\nb", False), (1, "changed", False), (2, "2 a\nb", False), (2, "2 a\nb", True),
    ]  # fmt: skip


def check_table_of_another_case(spark: SparkSession, feed: Feed) -> None:
    """The variant in another case is a different table."""
    assert [row["of"] for row in rows(spark, lake_name(feed, "dbo.CASED"))] == ["Cased"]
    refused = [(row["reason"], row["detail"]) for row in rows(spark, feed.lake.quarantine)]
    assert [reason for reason, _ in refused] == ["tables_alike"] * 2
    assert refused[0][1].startswith("dbo.cased is not dbo.Cased, which the feed reads as dbo.CASED: ")
