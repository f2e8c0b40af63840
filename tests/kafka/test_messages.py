"""This process and Spark's workers read exactly the given offset ranges from a real broker."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.cimpl import NewTopic
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from changeledger.config.connection import Connection
from changeledger.kafka import messages as kafka_messages
from changeledger.kafka.messages import MessageScan, Range, in_parts
from changeledger.kafka.settings import ClientSettings
from changeledger.kafka.topics import Kafka
from changeledger.kernels.arrow import MESSAGE
from changeledger.model.errors import SourceDataLostError
from changeledger.spark.rows import Workers
from sourcelab.messages import in_order
from sourcelab.services import KafkaBroker

_SECONDS = 30
Record = Mapping[str, Any]


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 60)), max_size=6, unique_by=lambda drawn: drawn[0]),
    st.integers(1, 20),
)
def test_parts_are_the_whole(sizes: list[tuple[int, int]], most: int) -> None:
    """Parts contain each offset once, at most `most` offsets each, and one range per partition."""
    ranges = [Range("t", partition, 7, 7 + size) for partition, size in sizes]
    parts = in_parts(ranges, most)
    offsets = [(span.partition, at) for part in parts for span in part for at in range(span.start, span.end)]
    assert sorted(offsets) == sorted((p, at) for p, size in sizes for at in range(7, 7 + size))
    for part in parts:
        assert 0 < sum(span.end - span.start for span in part) <= most
        assert len({span.partition for span in part}) == len(part)


@pytest.fixture
def topic(kafka: KafkaBroker, request: pytest.FixtureRequest) -> Iterator[str]:
    name = re.sub(r"\W+", "_", request.node.name.replace("test_", "read_"))[:60].strip("_").lower()
    yield name
    admin = _admin(kafka)
    _wait(admin.delete_topics([name]))


def _admin(kafka: KafkaBroker) -> AdminClient:
    return AdminClient({"bootstrap.servers": kafka.bootstrap})


def _wait(futures: Mapping[Any, Any]) -> None:
    for future in futures.values():
        future.result(_SECONDS)


def create(kafka: KafkaBroker, topic: str, partitions: int = 1, **config: str) -> None:
    options = {name.replace("_", "."): value for name, value in config.items()}
    admin = _admin(kafka)
    _wait(admin.create_topics([NewTopic(topic, partitions, 1, config={"retention.ms": "-1", **options})]))


def send(kafka: KafkaBroker, topic: str, records: Sequence[Record], **settings: Any) -> None:
    producer = in_order({"bootstrap.servers": kafka.bootstrap, **settings})
    for record in records:
        producer.produce(topic, **{"partition": 0, **record})
    assert producer.flush(_SECONDS) == 0


def transact(kafka: KafkaBroker, topic: str, values: Sequence[bytes], *, abort: bool = False) -> None:
    """Sends a transaction, which takes an offset for each value, and one for its commit or abort marker."""
    producer = in_order({"bootstrap.servers": kafka.bootstrap, "transactional.id": f"{topic}{time.time()}"})
    producer.init_transactions(_SECONDS)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, partition=0)
    producer.flush(_SECONDS)
    producer.abort_transaction(_SECONDS) if abort else producer.commit_transaction(_SECONDS)


def remove(kafka: KafkaBroker, topic: str, before: int) -> None:
    admin = _admin(kafka)
    _wait(admin.delete_records([TopicPartition(topic, 0, before)]))  # type: ignore[arg-type]


def scan(kafka: KafkaBroker, *ranges: Range, most: int = 1000, seconds: float = 20) -> MessageScan:
    settings = ClientSettings.of("here", {"bootstrap.servers": kafka.bootstrap})
    return MessageScan(settings, in_parts(ranges, most), seconds)


def read(kafka: KafkaBroker, *ranges: Range, **options: Any) -> list[dict[str, Any]]:
    message_scan = scan(kafka, *ranges, **options)
    return pa.Table.from_batches(
        [rows for part in message_scan.parts for rows in message_scan.rows(part)], MESSAGE
    ).to_pylist()


def values(rows: Sequence[Mapping[str, Any]]) -> list[tuple[int, bytes]]:
    return [(row["offset"], row["value"]) for row in rows]


@pytest.mark.integration
def test_null_is_not_empty(kafka: KafkaBroker, topic: str) -> None:
    create(kafka, topic)
    sent: list[dict[str, Any]] = [
        {"key": b"k", "value": b"v", "timestamp": 1_700_000_000_001},
        {"key": None, "value": None, "timestamp": 1},
        {"key": b"", "value": b"", "timestamp": 1_600_000_000_999},
        {"key": b"\xff\0", "value": b"\0", "timestamp": 1, "headers": [("a", b"1"), ("a", None), ("", b"")]},
        {"key": None, "value": b"", "timestamp": 1, "headers": []},
    ]
    send(kafka, topic, sent)
    rows = read(kafka, Range(topic, 0, 0, 5))
    times = [row.pop("timestamp") for row in rows]
    assert [round(moment.timestamp() * 1000) for moment in times] == [
        message["timestamp"] for message in sent
    ]
    pairs = [{"key": "a", "value": b"1"}, {"key": "a", "value": None}, {"key": "", "value": b""}]
    assert rows == [
        {
            "topic": topic, "partition": 0, "offset": at, "key": message["key"], "value": message["value"],
            "headers": pairs if at == 3 else None,
        }
        for at, message in enumerate(sent)
    ]  # fmt: skip


@pytest.mark.integration
def test_aborted_messages_and_marks(kafka: KafkaBroker, topic: str) -> None:
    """A range ends although its last offsets have no record, whether or not records follow it."""
    create(kafka, topic)
    transact(kafka, topic, [b"0", b"1"])
    transact(kafka, topic, [b"3", b"4", b"5"], abort=True)
    kept = [(0, b"0"), (1, b"1")]
    began = time.monotonic()
    assert values(read(kafka, Range(topic, 0, 0, 7))) == kept
    transact(kafka, topic, [b"7"])
    for end in (2, 3, 4, 6, 7):
        assert values(read(kafka, Range(topic, 0, 0, end))) == kept
    for start in range(2, 7):
        assert values(read(kafka, Range(topic, 0, start, 7))) == []
        assert values(read(kafka, Range(topic, 0, start, 9))) == [(7, b"7")]
    assert time.monotonic() < began + 15, "nothing waits until it is taken for stuck"


@pytest.mark.integration
def test_an_open_transaction_is_behind_the_end(kafka: KafkaBroker, topic: str) -> None:
    create(kafka, topic)
    transact(kafka, topic, [b"0"])
    producer = in_order({"bootstrap.servers": kafka.bootstrap, "transactional.id": topic})
    producer.init_transactions(_SECONDS)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    producer.flush(_SECONDS)
    stable = Kafka("here", Connection(conn_type="kafka", extra={"bootstrap.servers": kafka.bootstrap}))
    end = stable.latest([topic])[topic]["0"]
    assert end == 2
    assert values(read(kafka, Range(topic, 0, 0, end))) == [(0, b"0")]
    producer.abort_transaction(_SECONDS)


@pytest.fixture
def quick_cleaner(kafka: KafkaBroker) -> Iterator[None]:
    """The broker's log cleaner runs at once instead of every 15 s."""
    admin = _admin(kafka)

    def change(operation: AlterConfigOpType, value: str | None) -> None:
        entry = ConfigEntry("log.cleaner.backoff.ms", value, incremental_operation=operation)
        broker = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[entry])
        _wait(admin.incremental_alter_configs([broker]))

    change(AlterConfigOpType.SET, "200")
    yield
    change(AlterConfigOpType.DELETE, None)


@pytest.mark.integration
@pytest.mark.usefixtures("quick_cleaner")
def test_offsets_that_compaction_has_emptied(kafka: KafkaBroker, topic: str) -> None:
    compaction = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.01"}
    create(kafka, topic, segment_ms="100", max_compaction_lag_ms="100", **compaction)
    send(kafka, topic, [{"key": b"k", "value": b"%d" % at} for at in range(6)])
    deadline = time.monotonic() + 90
    kept: list[tuple[int, bytes]] = []
    while len(kept) != 1 and time.monotonic() < deadline:
        # A new record closes the segment.
        time.sleep(0.5)
        send(kafka, topic, [{"key": b"other", "value": b"o"}])
        kept = values(read(kafka, Range(topic, 0, 0, 6)))
    assert kept == [(5, b"5")]
    assert values(read(kafka, Range(topic, 0, 1, 5))) == []


@pytest.mark.integration
def test_large_messages(kafka: KafkaBroker, topic: str) -> None:
    """Messages of 5 MB arrive complete."""
    create(kafka, topic, max_message_bytes=str(16 << 20))
    large = [bytes([at]) * (5 << 20) for at in range(16)]
    send(kafka, topic, [{"value": value} for value in large], **{"message.max.bytes": 16 << 20})
    message_scan = scan(kafka, Range(topic, 0, 0, 16))
    batches = list(message_scan.rows(message_scan.parts[0]))
    assert [value for batch in batches for value in batch.column("value").to_pylist()] == large


@pytest.mark.integration
def test_times_beyond_the_calendar(kafka: KafkaBroker, topic: str) -> None:
    """A record's time may exceed the last one of the calendar.

    The producer sets the time. If it counts micro- or nanoseconds, the time is years ahead, which a topic may
    allow (`message.timestamp.after.max.ms`). The message is read with the last possible time.
    """
    create(kafka, topic, message_timestamp_after_max_ms=str(2**63 - 1))
    last = 253_402_300_799_999
    times = [last, last + 1, 1_786_119_900_000_000, 1_786_119_900_000_000_000, 2**63 - 1]
    send(kafka, topic, [{"value": b"v", "timestamp": time} for time in times])
    rows = read(kafka, Range(topic, 0, 0, len(times)))
    assert [row["timestamp"] for row in rows] == [datetime(9999, 12, 31, 23, 59, 59, 999000, UTC)] * 5


@pytest.mark.integration
def test_a_batch_is_bounded_in_bytes(kafka: KafkaBroker, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    create(kafka, topic)
    send(kafka, topic, [{"value": b"x" * 1000}] * 500)
    monkeypatch.setattr(kafka_messages, "_MOST_ROWS", 100)
    monkeypatch.setattr(kafka_messages, "_MOST_BYTES", 10_000)
    message_scan = scan(kafka, Range(topic, 0, 0, 500))
    sizes = [batch.num_rows for batch in message_scan.rows(message_scan.parts[0])]
    assert sum(sizes) == 500
    assert sizes[0] <= 100
    assert max(sizes[1:]) < 10


@pytest.mark.integration
@pytest.mark.timeout(60)
def test_no_more_is_waited_for_than_there_is(
    kafka: KafkaBroker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(kafka, topic)
    send(kafka, topic, [{"value": b"%d" % at} for at in range(10)])
    monkeypatch.setattr(kafka_messages, "_WAIT_SECONDS", 600)
    assert values(read(kafka, Range(topic, 0, 3, 10))) == [(at, b"%d" % at) for at in range(3, 10)]


@pytest.mark.integration
def test_a_range_in_parts_is_the_whole(spark: SparkSession, kafka: KafkaBroker, topic: str) -> None:
    """One client, several clients and Spark's workers read the same rows."""
    create(kafka, topic, partitions=3)
    # The producer batches several records, so some cuts fall within a batch.
    send(kafka, topic, [{"partition": at % 3, "value": b"%d" % at} for at in range(700)], **{"linger.ms": 50})
    ends = [234, 233, 233]
    ranges = [Range(topic, at, 5, end) for at, end in enumerate(ends)]
    whole = read(kafka, *ranges)
    assert len(whole) == 685
    for partition, end in enumerate(ends):
        offsets = [row["offset"] for row in whole if row["partition"] == partition]
        assert offsets == list(range(5, end))
    for most in (10_000, 90):
        cut = scan(kafka, *ranges, most=most)
        assert len(cut.parts) == len(in_parts(ranges, most))
        by_workers = Workers(lambda: spark).read(cut).collected()
        for rows in (read(kafka, *ranges, most=most), by_workers.cast(MESSAGE).to_pylist()):
            assert _in_order(rows) == _in_order(whole)


def _in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["partition"], row["offset"]))


@pytest.mark.integration
def test_a_beginning_that_is_gone(kafka: KafkaBroker, topic: str) -> None:
    create(kafka, topic)
    send(kafka, topic, [{"value": b"%d" % at} for at in range(10)])
    remove(kafka, topic, 4)
    for start, end in ((0, 10), (3, 4), (0, 2)):
        with pytest.raises(SourceDataLostError, match=rf"removed while they were read: {topic}\[0\]"):
            read(kafka, Range(topic, 0, start, end))
    assert len(read(kafka, Range(topic, 0, 4, 10))) == 6


@pytest.mark.integration
def test_records_that_go_while_they_are_read(
    kafka: KafkaBroker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(kafka, topic)
    send(kafka, topic, [{"value": b"%d" % at * 400_000} for at in range(100)])
    # The client keeps prefetched records: let it prefetch as few as possible.
    monkeypatch.setattr(kafka_messages, "_AHEAD", {**kafka_messages._AHEAD, "queued.min.messages": 1})
    monkeypatch.setattr(kafka_messages, "_MOST_ROWS", 1)
    message_scan = scan(kafka, Range(topic, 0, 0, 100))
    reading = message_scan.rows(message_scan.parts[0])
    next(reading)
    remove(kafka, topic, 99)
    with pytest.raises(SourceDataLostError, match="removed while they were read"):
        list(reading)


@pytest.mark.integration
def test_a_partition_that_ends_too_early(kafka: KafkaBroker, topic: str) -> None:
    """The topic was recreated, or the leader lacks records."""
    create(kafka, topic)
    send(kafka, topic, [{"value": b"%d" % at} for at in range(3)])
    with pytest.raises(SourceDataLostError, match=r"ends at offset 3, but had messages up to 9"):
        read(kafka, Range(topic, 0, 0, 9), seconds=2)
    with pytest.raises(SourceDataLostError, match="removed while they were read"):
        read(kafka, Range(topic, 0, 8, 9), seconds=2)


@pytest.mark.integration
def test_a_topic_that_is_not_there(kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    # By default, the client waits 30 s for brokers to learn of a new topic.
    soon = {**kafka_messages._AHEAD, "topic.metadata.propagation.max.ms": 500}
    monkeypatch.setattr(kafka_messages, "_AHEAD", soon)
    with pytest.raises(SourceDataLostError, match=r"read_nowhere.*[Uu]nknown topic"):
        read(kafka, Range("read_nowhere", 0, 0, 9), seconds=5)


@pytest.mark.integration
def test_no_secret_is_in_a_plan(spark: SparkSession) -> None:
    settings = ClientSettings.of("here", {"bootstrap.servers": "a:1", "sasl.password": "very secret"})
    message_scan = MessageScan(settings, in_parts([Range("t", 0, 0, 9)]), 1)
    frame = Workers(lambda: spark).read(message_scan).frame
    plan = frame._jdf.queryExecution().toString()
    assert "MapInArrow" in plan
    assert "very secret" not in plan
