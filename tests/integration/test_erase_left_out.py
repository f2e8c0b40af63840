"""Erase reaches what the newest release does not have: unread records, and tables that were left out."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

import pytest
from pyspark.sql import SparkSession

from changeledger.config.feed import Feed
from changeledger.config.settings import Settings
from changeledger.control import ControlStore
from changeledger.lake import refs, upkeep
from changeledger.model.window import Request, Window
from changeledger.stages import extract
from changeledger.stages.maintenance import erasing as erasing_module
from changeledger.stages.maintenance.erasing import Erasing
from sourcelab.messages import Message, produce
from sourcelab.services import KafkaBroker
from tests.integration.line import debezium_feed, lake_name, rows, run, window

pytestmark = [pytest.mark.integration, pytest.mark.long]


class Behind(datetime):
    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Behind:
        return super().now(tz) - timedelta(hours=1)


COLUMNS = [{"name": "id", "type": "int", "nullable": False}, {"name": "age", "type": "int"}]
TABLES = [{"table": f"dbo.{name}", "key": ["id"], "columns": COLUMNS} for name in ("people", "pets")]


def inserted(prefix: str, table: str, number: int, age: object, key: object) -> Message:
    """Returns the insert of a row, in JSON without schemas."""
    lsn = f"00000027:00000001:{number:04x}"
    source = {
        "version": "3.4.0.Final", "connector": "sqlserver", "name": prefix, "ts_ms": 1786119900883,
        "snapshot": "false", "db": "shop", "schema": "dbo", "table": table, "commit_lsn": lsn,
        "change_lsn": lsn, "event_serial_no": 1,
    }  # fmt: skip
    value = {"before": None, "after": {"id": number, "age": age}, "source": source, "op": "c"}
    value["ts_ms"] = 1786119901883
    texts = (json.dumps(part).encode() for part in (key, value))
    return Message(f"{prefix}.dbo.{table}", *texts, (), 1786119901883)


def moved(prefix: str, table: str, old: int, new: int) -> list[Message]:
    """Returns the move of a row to another key: a delete, its tombstone, and an insert, as one change."""
    insert = inserted(prefix, table, new, 5, {"id": new})
    value = json.loads(insert.value or b"")
    halves = []
    for serial, change in enumerate(
        ({"op": "d", "before": {"id": old, "age": 5}, "after": None}, {"op": "c"}), start=1
    ):
        half = {**value, **change, "source": {**value["source"], "event_serial_no": serial}}
        halves.append(insert._replace(value=json.dumps(half).encode()))
    deleted = halves[0]._replace(key=json.dumps({"id": old}).encode())
    return [deleted, deleted._replace(value=None), halves[1]]


def listed(feed: Feed, *tables: dict[str, Any]) -> Feed:
    return Feed.model_validate({**feed.model_dump(by_alias=True), "tables": tables})


def test_records_that_could_not_be_read_of_a_row_without_changes(
    spark: SparkSession,
    kafka: KafkaBroker,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Records are found by the message's exact key, with or without a schema, and only in this table."""
    prefix = "unread"
    feed = debezium_feed("erasing_unread", kafka, prefix, monkeypatch, tables=TABLES)
    kept = [
        inserted(prefix, "people", 1, 40, {"id": 1}),
        inserted(prefix, "people", 3, "old", {"id": 3}),
        inserted(prefix, "people", 2, "old", {"id": 2, "region": "north"}),
        inserted(prefix, "pets", 2, "old", {"id": 2}),
    ]
    gone = [
        inserted(prefix, "people", 2, "old", {"id": 2}),
        inserted(prefix, "people", 2, "older", {"schema": {"type": "struct"}, "payload": {"id": 2}}),
    ]
    produce(kafka.bootstrap, [*kept, *gone], partitions=1)
    run(spark, feed, window())
    erased = Erasing.of(spark, feed, "dbo.people", {"id": "2"}).erase("a tester")
    assert erased == {feed.lake.raw: 2, feed.lake.quarantine: 2, feed.lake.dispositions: 2}
    assert {bytes(row["value"]) for row in rows(spark, feed.lake.raw)} == {m.value for m in kept}
    assert {bytes(row["raw_value"]) for row in rows(spark, feed.lake.quarantine)} == {
        m.value for m in kept[1:]
    }
    extract.run(spark, feed, window(start=datetime.now(UTC) - timedelta(milliseconds=1)))
    assert "reads again" not in caplog.text
    unreleased = window()
    extract.run(spark, feed, unreleased)
    assert "before an erasure (1 key of dbo.people)" in caplog.text
    # No published table tells whose records a run has read but not released.
    ControlStore(Settings().control_url).leases.release(feed.feed, unreleased.holder)
    assert len(rows(spark, feed.lake.raw)) == 2 * len(kept) + len(gone)
    Erasing.of(spark, feed, "dbo.people", {"id": "2"}).erase("a tester")
    assert {bytes(row["value"]) for row in rows(spark, feed.lake.raw)} == {m.value for m in kept}
    assert len(rows(spark, f"{feed.lake.raw}.snapshots")) == 1


def test_a_table_that_the_newest_release_does_not_have(
    spark: SparkSession, kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tags of the releases that had the table still have the row."""
    prefix = "relisted"
    feed = debezium_feed("erasing_relisted", kafka, prefix, monkeypatch, tables=TABLES)
    sent = [
        inserted(prefix, table, number, 5, {"id": number})
        for table in ("people", "pets")
        for number in (1, 2)
    ]
    produce(kafka.bootstrap, sent, partitions=1)
    first = window()
    run(spark, feed, first)
    produce(kafka.bootstrap, [inserted(prefix, "people", 3, 5, {"id": 3})], partitions=1)
    run(spark, listed(feed, TABLES[0]), window(start=first.end))
    Erasing.of(spark, feed, "dbo.pets", {"id": "2"}).erase("a tester")
    pets = [lake_name(feed, "dbo.pets", kind) for kind in ("", "_history", "_changes")]
    assert refs.names(pets, refs.TAG) in ({}, {table: [] for table in pets})
    for table in pets:
        assert len(rows(spark, f"{table}.snapshots")) == 1
    assert [row["id"] for row in rows(spark, pets[0])] == [1]


def test_records_that_a_run_over_another_table_has_read_again(
    spark: SparkSession, kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No ledger leads to them. Unread records of the key that the row was moved to stay, both times."""
    prefix = "passed"
    feed = debezium_feed("erasing_passed", kafka, prefix, monkeypatch, tables=TABLES)
    mine = [inserted(prefix, "people", 2, 5, {"id": 2}), *moved(prefix, "people", 2, 4)]
    unread = inserted(prefix, "people", 4, "old", {"id": 4})
    kept = [unread, inserted(prefix, "pets", 2, 5, {"id": 2})]
    produce(kafka.bootstrap, [*mine, *kept], partitions=1)
    first = window()
    run(spark, feed, first)
    erased = Erasing.of(spark, feed, "dbo.people", {"id": "2"}).erase("a tester")
    assert (erased[feed.lake.raw], feed.lake.quarantine in erased) == (len(mine), False)
    pets = Request(mode="window", tables=("dbo.pets",))
    run(spark, feed, Window(start=first.start, end=first.end, request=pets))
    assert len(rows(spark, feed.lake.raw)) == len(kept) + len(mine) + len(kept)
    again = Erasing.of(spark, feed, "dbo.people", {"id": "2"}).erase("a tester")
    assert again == {feed.lake.raw: 3, feed.lake.dispositions: 3}
    keys = [json.loads(bytes(row["key"])) for row in rows(spark, feed.lake.raw)]
    assert [key["id"] for key in keys].count(2) == 2, "those of the other table"
    assert [bytes(row["raw_value"]) for row in rows(spark, feed.lake.quarantine)] == [unread.value]


def test_an_erase_that_is_killed_is_completed_by_the_next(
    spark: SparkSession, kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What leads to the row's records is deleted last, whatever was deleted before.

    The erasing machine's clock is behind that of the runs.
    """
    prefix = "killed"
    monkeypatch.setattr(erasing_module, "datetime", Behind)
    feed = debezium_feed("erasing_killed", kafka, prefix, monkeypatch, tables=TABLES)
    of_rows = [
        [
            inserted(prefix, "people", number, 5, {"id": number}),
            inserted(prefix, "people", number, 5, {"id": number}),
            inserted(prefix, "people", number, "old", {"id": number})._replace(value=None),
        ]
        for number in (1, 2, 3)
    ]
    produce(kafka.bootstrap, [message for messages in of_rows for message in messages], partitions=1)
    run(spark, feed, window())
    delete_where = upkeep.delete_where
    people = feed.names["dbo.people"]
    for number, table in ((1, feed.lake.raw), (2, people.changes)):

        def killed(session: SparkSession, name: str, condition: str, last: str = table) -> int:
            if name == last:
                raise InterruptedError
            return delete_where(session, name, condition)

        erasing = Erasing.of(spark, feed, "dbo.people", {"id": str(number)})
        monkeypatch.setattr(upkeep, "delete_where", killed)
        with pytest.raises(InterruptedError):
            erasing.erase("a tester")
        monkeypatch.setattr(upkeep, "delete_where", delete_where)
        erasing.erase("a tester")
    assert {row["key"] for row in rows(spark, feed.lake.raw)} == {b'{"id": 3}'}
    assert {row["id"] for row in rows(spark, people.current)} == {3}
    assert {row["key"]["id"] for row in rows(spark, people.changes)} == {3}
    assert {row["source_position"]["offset"] for row in rows(spark, feed.lake.dispositions)} == {7, 8}
    for table in (feed.lake.raw, feed.lake.dispositions, *people):
        assert len(rows(spark, f"{table}.snapshots")) == 1
