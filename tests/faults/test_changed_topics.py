"""Topics that change between two windows, or between two tries of one: more partitions, fewer records."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.sql import SparkSession

from changeledger.config.feed import Feed
from changeledger.control import AskedReset
from changeledger.kafka.topics import Fingerprints, Kafka, Offsets
from changeledger.model.errors import SourceDataLostError, SourceUnavailable
from changeledger.model.window import SourceRead
from changeledger.stages import extract
from changeledger.stages.maintenance import resetting
from sourcelab.messages import in_order
from sourcelab.services import KafkaBroker
from tests.faults.test_sources import (
    TABLE,
    before_it_is_read,
    create,
    extracted,
    messages,
    reads,
    recreate,
    released,
    send,
    wait,
)
from tests.integration.line import message_feed, run, window

pytestmark = pytest.mark.integration


@pytest.fixture
def topic(kafka: KafkaBroker, request: pytest.FixtureRequest) -> Iterator[str]:
    name = re.sub(r"\W+", "_", request.node.name.replace("test_", "changed_"))[:50].strip("_").lower()
    yield name
    admin = _admin(kafka)
    wait(admin.delete_topics([name]))


@pytest.fixture
def feed(kafka: KafkaBroker, topic: str, monkeypatch: pytest.MonkeyPatch) -> Feed:
    return message_feed(topic, "debezium", kafka, [topic], monkeypatch, tables=[{"table": TABLE}])


def _admin(kafka: KafkaBroker) -> AdminClient:
    return AdminClient({"bootstrap.servers": kafka.bootstrap})


def _add_partition(kafka: KafkaBroker, topic: str, *, sent: range, removed: int) -> None:
    """A second partition with these messages, of which retention has removed the first ones."""
    admin = _admin(kafka)
    wait(admin.create_partitions([NewPartitions(topic, 2)]))
    producer = in_order({"bootstrap.servers": kafka.bootstrap})
    for message in messages(sent.stop)[sent.start :]:
        producer.produce(topic, message.value, message.key, partition=1, timestamp=message.timestamp_ms)
    assert producer.flush(30) == 0
    if removed:
        wait(admin.delete_records([TopicPartition(topic, 1, removed)]))  # type: ignore[arg-type]


@pytest.mark.parametrize("removed", [0, 2])
def test_an_added_partition(
    spark: SparkSession, kafka: KafkaBroker, topic: str, feed: Feed, removed: int
) -> None:
    """It is new since the last release, so what is gone of it is what followed that."""
    create(kafka, topic)
    send(kafka, topic, messages(3))
    released(spark, feed)
    _add_partition(kafka, topic, sent=range(3, 7), removed=removed)
    if removed:
        with pytest.raises(SourceDataLostError, match=rf"{topic}\[1\]: offsets 0 to 1 were removed"):
            extracted(spark, feed)
        return
    over = extracted(spark, feed)
    assert reads(feed, over) == [SourceRead(f"{topic}[0]", 3, 3), SourceRead(f"{topic}[1]", 4, 4)]


def test_made_again_between_two_tries(
    spark: SparkSession, kafka: KafkaBroker, topic: str, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is shorter than what the first try was to read: the second one names it, and waits for nothing."""
    create(kafka, topic)
    send(kafka, topic, messages(3))
    released(spark, feed)
    send(kafka, topic, messages(9)[3:])
    over = window()

    def fail() -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        before_it_is_read(patch, fail)
        with pytest.raises(KeyboardInterrupt):
            extract.run(spark, feed, over)
    recreate(kafka, topic)
    send(kafka, topic, messages(5))
    begun = time.monotonic()
    with pytest.raises(SourceDataLostError, match="was deleted and created again") as lost:
        extract.run(spark, feed, over)
    assert time.monotonic() < begun + 60
    assert "changeledger reset" in lost.value.remedy


def _without_ids(patch: pytest.MonkeyPatch) -> None:
    """As brokers before 2.8, and services that speak Kafka's protocol, have none."""
    patch.setattr(Kafka, "ids", lambda _, topics: dict.fromkeys(topics, ""))


def test_made_again_after_a_run_that_failed(
    spark: SparkSession, kafka: KafkaBroker, topic: str, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends behind what is released, and before what that run has read."""
    _without_ids(monkeypatch)
    create(kafka, topic)
    send(kafka, topic, messages(3))
    released(spark, feed)
    send(kafka, topic, messages(7)[3:])
    extracted(spark, feed)
    recreate(kafka, topic)
    send(kafka, topic, messages(9)[4:])
    with pytest.raises(SourceDataLostError, match="deleted and created again"):
        extracted(spark, feed)


@pytest.mark.parametrize("has_ids", [True, False])
@pytest.mark.parametrize("policy", ["compact", "delete"])
def test_the_last_record_is_gone(
    spark: SparkSession,
    kafka: KafkaBroker,
    topic: str,
    feed: Feed,
    monkeypatch: pytest.MonkeyPatch,
    has_ids: bool,
    policy: str,
) -> None:
    """A later record of its key has taken its place in a compacted topic, which by its id is the same."""
    if not has_ids:
        _without_ids(monkeypatch)
    create(kafka, topic, **{"cleanup.policy": policy})
    send(kafka, topic, messages(3))
    extracted(spark, feed)
    send(kafka, topic, messages(4)[3:])

    def none_there(_: Kafka, behind: Offsets) -> Fingerprints:
        return {at: dict.fromkeys(partitions) for at, partitions in behind.items()}

    monkeypatch.setattr(Kafka, "fingerprints", none_there)
    if policy == "compact" and has_ids:
        assert reads(feed, extracted(spark, feed)) == [SourceRead(f"{topic}[0]", 4, 4)]
    else:
        with pytest.raises(SourceDataLostError, match="deleted and created again"):
            extracted(spark, feed)


@pytest.mark.long
def test_made_again_behind_a_reset(spark: SparkSession, kafka: KafkaBroker, topic: str, feed: Feed) -> None:
    """What the reset has read is known again by the run that follows it."""
    create(kafka, topic)
    send(kafka, topic, messages(3))
    run(spark, feed, window())
    resetting.ask(lambda: spark, feed, AskedReset("a wrong time zone", "ann"))
    run(spark, feed, window())
    recreate(kafka, topic)
    send(kafka, topic, messages(9)[3:])
    with pytest.raises(SourceDataLostError, match="deleted and created again"):
        extracted(spark, feed)


def test_made_again_while_it_is_read_first(
    spark: SparkSession, kafka: KafkaBroker, topic: str, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is published that could lack anything, but raw may have records of both topics."""
    create(kafka, topic)
    send(kafka, topic, messages(3))

    def replace() -> None:
        recreate(kafka, topic)
        send(kafka, topic, messages(8)[3:])

    over = window()
    with monkeypatch.context() as patch:
        before_it_is_read(patch, replace)
        with pytest.raises(SourceUnavailable, match="created again while it was read"):
            extract.run(spark, feed, over)
    extract.run(spark, feed, over)
    assert reads(feed, over) == [SourceRead(f"{topic}[0]", 3, 3)]
