"""However a feed's messages are cut into windows, its tables are the same."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from changeledger.config.feed import Feed
from sourcelab import ces, debezium, qlik_messages
from sourcelab.log import simulate
from sourcelab.messages import Message
from sourcelab.services import KafkaBroker
from tests.integration.line import carry, debezium_feed, lake_name, message_feed, rows

pytestmark = pytest.mark.integration
TABLE = "sales.orders"
# What says in which run a row was written.
OF_THE_RUN = ("_window_id", "window_id", "feed", "source_position", "paired_source_position")


def reported(prefix: str) -> list[Message]:
    messages = debezium.messages(simulate(5, 40), schemas=True, snapshot=False, prefix=prefix)
    return [m for m in messages if m.topic.endswith(TABLE)]


def operation(message: Message) -> str | None:
    return None if message.value is None else str(json.loads(message.value)["payload"]["op"])


def seam(messages: list[Message]) -> int:
    """Behind a delete and its tombstone, before the insert that is the other half of its key update."""
    operations = [operation(message) for message in messages]
    for at in range(2, len(messages)):
        before, after = messages[at - 2], messages[at]
        if operations[at - 2 : at + 1] == ["d", None, "c"] and position(before) == position(after):
            return at
    raise AssertionError("the log has no update of a key")


def position(message: Message) -> tuple[str, str]:
    source = json.loads(message.value or b"{}")["payload"]["source"]
    return source["commit_lsn"], source["change_lsn"]


def table_of(spark: SparkSession, feed: Feed, kind: str) -> list[Any]:
    def plain(row: Row) -> dict[str, Any]:
        return {k: v for k, v in row.asDict(recursive=True).items() if k not in OF_THE_RUN}

    return sorted((plain(row) for row in rows(spark, lake_name(feed, TABLE, kind))), key=repr)


def test_a_key_update_in_two_windows_is_one_update(
    spark: SparkSession, kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = [{"table": TABLE}]
    whole = debezium_feed("whole", kafka, "whole", monkeypatch, tables=tables)
    parted = debezium_feed("parted", kafka, "parted", monkeypatch, tables=tables)
    carry(spark, kafka, whole, reported("whole"))
    messages = reported("parted")
    cut = seam(messages)
    end = carry(spark, kafka, parted, messages[:cut])
    carry(spark, kafka, parted, messages[cut:], end)
    for kind in ("", "_history", "_changes"):
        assert table_of(spark, parted, kind) == table_of(spark, whole, kind), kind
    moved = spark.table(lake_name(parted, TABLE, "_changes")).where("paired_change_id IS NOT NULL")
    assert not moved.isEmpty()


def equal(spark: SparkSession, one: Feed, other: Feed) -> bool:
    return all(
        table_of(spark, one, kind) == table_of(spark, other, kind) for kind in ("", "_history", "_changes")
    )


def test_segments_of_one_event_in_two_windows(
    spark: SparkSession, kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both windows begin at the same time: the second one reads again what waits from the first."""
    tables = [{"table": TABLE}]

    def events(topic: str) -> list[Message]:
        streamed = ces.messages(simulate(5, 12), split_at=900, topic=topic)
        return [m for m in streamed if m.key == TABLE.encode()]

    def logical(message: Message) -> str:
        return str(json.loads(message.value or b"{}")["logicalid"])

    whole = message_feed("segments_whole", "ces", kafka, ["segments.whole"], monkeypatch, tables=tables)
    parted = message_feed("segments_parted", "ces", kafka, ["segments.parted"], monkeypatch, tables=tables)
    carry(spark, kafka, whole, events("segments.whole"))
    reported = events("segments.parted")
    cut = next(at for at in range(20, len(reported)) if logical(reported[at - 1]) == logical(reported[at]))
    carry(spark, kafka, parted, reported[:cut])
    waiting = rows(spark, parted.lake.pending)
    assert {row["reason"] for row in waiting} == {"split_incomplete"}
    carry(spark, kafka, parted, reported[cut:])
    assert not rows(spark, parted.lake.pending)
    assert equal(spark, parted, whole)


def test_data_in_a_window_before_its_metadata(
    spark: SparkSession, kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = [{"table": TABLE}]

    def reported(prefix: str) -> list[Message]:
        messages = qlik_messages.messages(simulate(5, 12), envelope=True, snapshot=False, prefix=prefix)
        return [m for m in messages if m.topic.endswith(TABLE)]

    whole = message_feed("metadata_whole", "qlik_messages", kafka, ["whole.*"], monkeypatch, tables=tables)
    late = message_feed("metadata_late", "qlik_messages", kafka, ["late.*"], monkeypatch, tables=tables)
    carry(spark, kafka, whole, reported("whole"))
    metadata, *data = reported("late")
    end = carry(spark, kafka, late, data[:10])
    waiting = rows(spark, late.lake.pending)
    assert [row["reason"] for row in waiting] == ["metadata_unknown"] * 10
    carry(spark, kafka, late, [metadata, *data[10:]], end)
    assert not rows(spark, late.lake.pending)
    assert equal(spark, late, whole)
