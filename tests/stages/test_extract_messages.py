"""Messages into raw: the rows do not depend on who carries them, replace earlier ones, and need no Spark."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from pyspark.sql import SparkSession

from changeledger.config.feed import Feed
from changeledger.config.settings import Settings
from changeledger.control import ControlStore
from changeledger.kafka.messages import RAW
from changeledger.lake import catalog, scans
from changeledger.model.errors import SourceDataLostError
from changeledger.model.window import SourceRead, Window
from changeledger.stages import extract
from sourcelab.messages import Message, produce
from sourcelab.schema_registry import SchemaRegistry
from sourcelab.services import KafkaBroker
from tests.faults.test_sources import before_it_is_read
from tests.integration.line import message_feed, window
from tests.kafka.test_messages import remove

pytestmark = pytest.mark.integration
Rows = list[dict[str, Any]]


@pytest.fixture
def feed(kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Feed:
    name = request.node.name.replace("test_", "x_")[:40]
    return message_feed(name, "debezium", kafka, [f"{name}.*"], monkeypatch, tables=[{"table": "dbo.t"}])


def send(kafka: KafkaBroker, feed: Feed, numbers: range) -> None:
    messages = [
        Message(f"{feed.feed}.{at % 2}", b"%d" % at, b"value %d" % at, (("h", b"%d" % at),), 10**12 + at)
        for at in numbers
    ]
    produce(kafka.bootstrap, messages, partitions=2)


def extracted(session: Any, feed: Feed, over: Window) -> None:
    try:
        extract.run(session, feed, over)
    finally:
        ControlStore(Settings().control_url).leases.release(feed.feed, over.holder)


def raw(feed: Feed, over: Window) -> Rows:
    rows = scans.read(feed.lake.raw, scans.of_window(over.id), RAW).to_pylist()
    return sorted(rows, key=lambda row: (row["topic"], row["partition"], row["offset"]))


def test_again(spark: SparkSession, kafka: KafkaBroker, feed: Feed) -> None:
    """Extracting a window twice gives the same rows, once. They are counted by partition."""
    send(kafka, feed, range(60))
    over = window()
    extracted(spark, feed, over)
    first = raw(feed, over)
    assert [row["value"] for row in sorted(first, key=lambda row: int(row["key"]))] == [
        b"value %d" % at for at in range(60)
    ]
    assert all(row["headers"] == [{"key": "h", "value": row["key"]}] for row in first)
    extracted(spark, feed, over)
    assert raw(feed, over) == first
    by_spark = spark.table(feed.lake.raw).where(f"window_id = '{over.id}'")
    assert by_spark.count() == 60
    counts = Counter((row["topic"], row["partition"]) for row in first)
    reads = ControlStore(Settings().control_url).sources.reads(feed.feed, over.id)
    assert reads == [SourceRead(f"{topic}[{at}]", n, n) for (topic, at), n in sorted(counts.items())]


def test_files_are_of_one_window_and_topic(spark: SparkSession, kafka: KafkaBroker, feed: Feed) -> None:
    """Each window can thus be removed without touching another one."""
    send(kafka, feed, range(20))
    first, second = window(), window()
    extracted(spark, feed, first)
    extracted(spark, feed, second)
    files = [task.file for task in catalog.load(feed.lake.raw).scan().plan_files()]
    topics = {f"{feed.feed}.0", f"{feed.feed}.1"}
    assert {tuple(file.partition[at] for at in (0, 1)) for file in files} == {
        (over.id, topic) for over in (first, second) for topic in topics
    }
    before = raw(feed, second)
    extracted(spark, feed, first)
    assert raw(feed, second) == before
    assert len(raw(feed, first)) == 20


def test_a_loss_that_a_worker_finds(
    spark: SparkSession, kafka: KafkaBroker, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error has its own kind and remedy, and raw is unchanged."""
    produce(kafka.bootstrap, [Message(f"{feed.feed}.0", b"k", b"v", (), 10**12)] * 9, partitions=1)
    over = window()
    extracted(spark, feed, over)
    before_it_is_read(monkeypatch, lambda: remove(kafka, f"{feed.feed}.0", 3))
    with pytest.raises(SourceDataLostError, match=rf"while they were read: {feed.feed}\.0\[0\]") as raised:
        extracted(spark, feed, over)
    assert "A gap" in raised.value.remedy
    assert len(raw(feed, over)) == 9


def framed(schema_id: int, body: bytes = b"\2\2a") -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + body


def test_a_registry_is_asked_once_for_each_id(
    spark: SparkSession, kafka: KafkaBroker, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows share an answer. Bytes that are no id are not asked for, nor are those beside ids in headers."""
    in_headers = (("apicurio.value.globalId", bytes(7) + b"\1"), ("apicurio.key.globalId", bytes(7) + b"\1"))
    values = [framed(1), framed(1), framed(2), framed(2), framed(77), framed(77), framed(0), framed(2**31)]
    sent = [Message(f"{feed.feed}.0", framed(3), value, (), 10**12) for value in values]
    sent += [
        Message(f"{feed.feed}.0", framed(100 + n), framed(200 + n), in_headers, 10**12) for n in range(5)
    ]
    produce(kafka.bootstrap, sent, partitions=1)
    with SchemaRegistry() as registry:
        registry.register("value", '{"type": "record", "name": "r", "fields": []}')
        registry.register("value", "syntax", "PROTOBUF")
        registry.register("key", "{}", "JSON")
        extra = {"bootstrap.servers": kafka.bootstrap, "schema.registry.url": registry.url}
        connection = json.dumps({"conn_type": "kafka", "extra": extra})
        monkeypatch.setenv(f"AIRFLOW_CONN_{feed.connection.upper()}", connection)
        extracted(spark, feed, window())
    assert sorted(registry.asked) == ["1", "2", "3", "77"]
    known = ControlStore(Settings().control_url).contracts.avro_schemas(feed.feed)
    assert known.keys() == {"1", "2", "3"}
    assert json.loads(known["2"]) == {"schemaType": "PROTOBUF", "schema": "syntax"}
