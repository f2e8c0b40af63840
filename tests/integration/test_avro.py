"""Avro through the whole line, on a real broker: each table as from the same messages in JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from changeledger.cli import quarantine
from changeledger.config.feed import Feed
from changeledger.model.errors import SourceUnavailable
from changeledger.stages import extract, normalize
from changeledger.state.quarantine import Chosen
from sourcelab import ces, ces_avro, debezium, qlik_messages, qlik_messages_avro
from sourcelab.avro_converter import AvroConverter
from sourcelab.log import Log, simulate
from sourcelab.messages import Message, produce
from sourcelab.schema_registry import SchemaRegistry
from sourcelab.services import KafkaBroker
from tests.integration.line import carry, debezium_feed, lake_name, message_feed, rows, run, window

pytestmark = pytest.mark.integration

TABLES = ("sales.orders", "dbo.parts")
LOGIN = "reader:s3cret"
# What says in which run a row was written.
OF_THE_RUN = ("_window_id", "window_id", "feed", "source_position", "paired_source_position")


def reported(log: Log, prefix: str, **part: int) -> list[Message]:
    messages = debezium.messages(log, schemas=True, snapshot=False, prefix=prefix, **part)
    return [m for m in messages if m.topic.endswith((*TABLES, prefix))]


def published(spark: SparkSession, feed: Feed) -> dict[str, list[Any]]:
    def plain(row: Row) -> dict[str, Any]:
        return {k: v for k, v in row.asDict(recursive=True).items() if k not in OF_THE_RUN}

    return {
        f"{table}{kind}": sorted((plain(row) for row in rows(spark, lake_name(feed, table, kind))), key=repr)
        for table in TABLES
        for kind in ("", "_history", "_changes")
    }


def connect(patch: pytest.MonkeyPatch, feed: Feed, kafka: KafkaBroker, registry: str) -> None:
    extra = {
        "bootstrap.servers": kafka.bootstrap,
        "schema.registry.url": registry,
        "schema.registry.basic.auth.user.info": LOGIN,
        "schema.registry.max.retries": 0,
    }
    patch.setenv(
        f"AIRFLOW_CONN_{feed.connection.upper()}", json.dumps({"conn_type": "kafka", "extra": extra})
    )


def test_debezium_whatever_befalls_the_registry(
    spark: SparkSession, kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = simulate(5, 24)
    tables = [{"table": table} for table in TABLES]
    in_json = debezium_feed("sent_in_json", kafka, "sent_in_json", monkeypatch, tables=tables)
    in_avro = debezium_feed("sent_in_avro", kafka, "sent_in_avro", monkeypatch, tables=tables)
    produce(kafka.bootstrap, reported(log, "sent_in_json"), partitions=1)
    run(spark, in_json, window())

    registry = SchemaRegistry(LOGIN)
    converter = AvroConverter(registry.register)
    # One message of the second half names a schema that the registry does not know yet.
    first, last = reported(log, "sent_in_avro", to_tx=12), reported(log, "sent_in_avro", from_tx=12)
    produce(kafka.bootstrap, converter.encoded(first), partitions=1)
    with registry:
        connect(monkeypatch, in_avro, kafka, registry.url)
        early = window()
        run(spark, in_avro, early, (extract, normalize))
    # The registry is gone: what it answered is kept.
    run(spark, in_avro, early)

    held: list[str] = []

    def late(subject: str, schema: str) -> int:
        if subject.endswith("-key"):
            return registry.register(subject, schema)
        held.append(schema)
        return 99

    lost = next(m for m in reversed(last) if m.value is not None and m.topic.endswith(TABLES))
    others = converter.encoded(m for m in last if m is not lost)
    produce(kafka.bootstrap, [*others, *AvroConverter(late).encoded([lost])], partitions=1)
    later = window(start=early.end)
    with pytest.raises(SourceUnavailable, match=r"schema registry at http://127.0.0.1:\d+ does not answer"):
        run(spark, in_avro, later, (extract,))

    with registry:
        connect(monkeypatch, in_avro, kafka, registry.url)
        run(spark, in_avro, later)
        kept = quarantine.records(in_avro, Chosen(), "reason")
        assert [row["reason"] for row in kept] == ["unknown_schema"]

        (registry.schemas["99"],) = held
        assert quarantine.replay(spark, in_avro, Chosen(), print) == 1
        run(spark, in_avro, window())
    assert not list(quarantine.records(in_avro, Chosen()))
    assert published(spark, in_avro) == published(spark, in_json)


def in_two_windows(
    spark: SparkSession,
    kafka: KafkaBroker,
    monkeypatch: pytest.MonkeyPatch,
    dialect: str,
    in_json: list[Message],
    in_avro: tuple[list[Message], list[Message]],
) -> set[str]:
    """Publishes both and finds them equal; returns why messages waited between the two windows of Avro."""
    tables = [{"table": table} for table in TABLES]

    def feed_in(form: str) -> Feed:
        name = f"{dialect}_in_{form}"
        return message_feed(name, dialect, kafka, [f"{name}.*"], monkeypatch, tables=tables)

    def to(feed: Feed, part: list[Message]) -> list[Message]:
        return [m._replace(topic=f"{feed.feed}.{m.topic}") for m in part]

    plain, avro = feed_in("json"), feed_in("avro")
    carry(spark, kafka, plain, to(plain, in_json))
    end = carry(spark, kafka, avro, to(avro, in_avro[0]))
    waited = {row["reason"] for row in rows(spark, avro.lake.pending)}
    carry(spark, kafka, avro, to(avro, in_avro[1]), end)
    assert not rows(spark, avro.lake.pending)
    assert published(spark, avro) == published(spark, plain)
    return waited


def test_ces_with_the_segments_of_an_event_in_two_windows(
    spark: SparkSession, kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [table.encode() for table in TABLES]
    events = [m for m in ces.messages(simulate(5, 12)) if m.key in keys]
    segments: list[Message] = []
    cut = 0
    for event in events:
        reported = list(ces_avro.messages([event], split_at=600))
        if not cut and len(reported) > 1 and len(segments) > 20:
            cut = len(segments) + 1
        segments += reported
    parts = segments[:cut], segments[cut:]
    assert in_two_windows(spark, kafka, monkeypatch, "ces", events, parts) == {"split_incomplete"}


def test_qlik_messages_with_data_in_a_window_before_their_metadata(
    spark: SparkSession, kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the other table the schema is known from the window before."""
    messages = qlik_messages.messages(simulate(5, 12), envelope=True, snapshot=False)
    in_json = [m for m in messages if m.topic.endswith(TABLES)]
    one, other, *data = qlik_messages_avro.messages(in_json)
    half = len(data) // 2
    parts = [one, *data[:half]], [other, *data[half:]]
    waited = in_two_windows(spark, kafka, monkeypatch, "qlik_messages", in_json, parts)
    assert waited == {"metadata_unknown"}
