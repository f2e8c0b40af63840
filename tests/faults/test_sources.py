"""Topics that are not what they were: lost records are found before anything is built on the rest."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import SparkSession

from changeledger.config.connection import Connection
from changeledger.config.feed import Feed
from changeledger.config.settings import Settings
from changeledger.control import Asked, ControlStore
from changeledger.kafka.messages import MessageScan
from changeledger.kafka.topics import Kafka, Offsets
from changeledger.lake import scans
from changeledger.model.errors import AuditFailed, SourceDataLostError
from changeledger.model.window import SourceRead, Window
from changeledger.stages import audit, extract, normalize, reconcile
from changeledger.stages.maintenance.rolling_back import roll_back
from sourcelab import debezium
from sourcelab.log import simulate
from sourcelab.messages import Message, in_order
from sourcelab.services import KafkaBroker
from tests.integration.line import message_feed, run, window
from tests.released import release

pytestmark = pytest.mark.integration

TABLE = "dbo.customers"
_SECONDS = 30


@pytest.fixture
def topic(kafka: KafkaBroker, request: pytest.FixtureRequest) -> Iterator[str]:
    name = re.sub(r"\W+", "_", request.node.name.replace("test_", "sources_"))[:50].strip("_").lower()
    yield name
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    wait(admin.delete_topics([name]))


@pytest.fixture
def feed(kafka: KafkaBroker, topic: str, monkeypatch: pytest.MonkeyPatch) -> Feed:
    return message_feed(topic, "debezium", kafka, [topic], monkeypatch, tables=[{"table": TABLE}])


def messages(count: int) -> list[Message]:
    return _messages()[:count]


@cache
def _messages() -> list[Message]:
    return [
        message
        for message in debezium.messages(simulate(5, 40), schemas=True, snapshot=False, heartbeats=False)
        if message.topic.endswith(TABLE) and message.value is not None
    ]


def wait(futures: Mapping[str, object]) -> None:
    for future in futures.values():
        future.result(_SECONDS)  # type: ignore[attr-defined]


def create(kafka: KafkaBroker, topic: str, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    wait(admin.create_topics([NewTopic(topic, 1, 1, config={"retention.ms": "-1", **config})]))


def send(
    kafka: KafkaBroker, topic: str, reported: list[Message], *, aborted: bool = False, **settings: str
) -> None:
    producer = in_order({"bootstrap.servers": kafka.bootstrap, **settings})
    if settings:
        producer.init_transactions(_SECONDS)
        producer.begin_transaction()
    for message in reported:
        producer.produce(topic, message.value, message.key, timestamp=message.timestamp_ms)
    if settings:
        # Unsent messages would not be in the log.
        assert producer.flush(_SECONDS) == 0
        end = producer.abort_transaction if aborted else producer.commit_transaction
        end(_SECONDS)
        _await_marks(kafka, topic)
    assert producer.flush(_SECONDS) == 0


def _await_marks(kafka: KafkaBroker, topic: str) -> None:
    """Waits for the broker's marks: it reports a transaction's end before it has marked it in the topic."""
    source = Kafka("sent", Connection(conn_type="kafka", extra={"bootstrap.servers": kafka.bootstrap}))
    deadline = time.monotonic() + _SECONDS
    while source.latest([topic]) != source.latest([topic], committed=False):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def recreate(kafka: KafkaBroker, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    wait(admin.delete_topics([topic]))
    for _ in range(10 * _SECONDS):
        try:
            create(kafka, topic)
            return
        except Exception:  # noqa: BLE001 - the broker removes it in its own time
            time.sleep(0.1)
    raise AssertionError("the topic does not go")


def extracted(spark: SparkSession, feed: Feed) -> Window:
    """Reads a window that ends now, and leaves it to the next one."""
    over = window()
    try:
        extract.run(spark, feed, over)
    finally:
        ControlStore(Settings().control_url).leases.release(feed.feed, over.holder)
    return over


def released(spark: SparkSession, feed: Feed) -> Window:
    """Reads and releases a window, without the stages between, which take most of a run's time."""
    over, control = extracted(spark, feed), ControlStore(Settings().control_url)
    row = control.windows.row(feed.feed, over.id)
    assert row is not None
    control.releases.complete(feed.feed, release(control, feed.feed, [], over, position=row.to_position))
    return over


def reads(feed: Feed, over: Window) -> list[SourceRead]:
    return ControlStore(Settings().control_url).sources.reads(feed.feed, over.id)


@pytest.mark.parametrize("has_ids", [True, False])
def test_recreated_and_grown(
    spark: SparkSession,
    kafka: KafkaBroker,
    topic: str,
    feed: Feed,
    monkeypatch: pytest.MonkeyPatch,
    has_ids: bool,
) -> None:
    """A recreated topic is found by its id or, if the broker has none, by the last record that was read."""
    if not has_ids:
        monkeypatch.setattr(Kafka, "ids", lambda _, topics: dict.fromkeys(topics, ""))
    create(kafka, topic)
    send(kafka, topic, messages(3))
    extracted(spark, feed)
    extracted(spark, feed)
    recreate(kafka, topic)
    send(kafka, topic, messages(9)[3:])
    with pytest.raises(SourceDataLostError, match="deleted and created again"):
        extracted(spark, feed)


def before_it_is_read(patch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """Acts when the window's offsets are resolved and none of its records is read yet."""
    usual = Kafka.messages

    def messages(broker: Kafka, start: Offsets, end: Offsets) -> MessageScan:
        act()
        return usual(broker, start, end)

    patch.setattr(Kafka, "messages", messages)


def test_recreated_between_the_check_and_the_read(
    spark: SparkSession, kafka: KafkaBroker, topic: str, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(kafka, topic)
    send(kafka, topic, messages(3))
    extracted(spark, feed)
    send(kafka, topic, messages(6)[3:])

    def replace() -> None:
        recreate(kafka, topic)
        send(kafka, topic, messages(12)[6:])

    before_it_is_read(monkeypatch, replace)
    with pytest.raises(SourceDataLostError, match="deleted and created again"):
        extracted(spark, feed)


def test_removed_between_the_check_and_the_read(
    spark: SparkSession, kafka: KafkaBroker, topic: str, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(kafka, topic)
    send(kafka, topic, messages(6))
    before_it_is_read(monkeypatch, lambda: remove(kafka, topic, 2))
    with pytest.raises(SourceDataLostError, match="messages were removed while they were read"):
        extracted(spark, feed)


@pytest.mark.parametrize("is_released", [pytest.param(True, marks=pytest.mark.long), False])
def test_removed_before_a_window_is_tried_again(
    spark: SparkSession, kafka: KafkaBroker, topic: str, feed: Feed, is_released: bool
) -> None:
    """What another run released meanwhile is not lost: the rest is read. Else an error names the loss."""
    create(kafka, topic)
    send(kafka, topic, messages(3))
    released(spark, feed)
    send(kafka, topic, messages(6)[3:])
    over = extracted(spark, feed)
    if is_released:
        released(spark, feed)
    remove(kafka, topic, 5)
    if is_released:
        extract.run(spark, feed, over)
        assert reads(feed, over) == [SourceRead(f"{topic}[0]", 1, 1)]
    else:
        with pytest.raises(SourceDataLostError, match="offsets 3 to 4 were removed") as lost:
            extract.run(spark, feed, over)
        assert f"changeledger reset {feed.feed} --accept-gap" in lost.value.remedy


def test_removed_before_a_first_window_is_tried_again(
    spark: SparkSession, kafka: KafkaBroker, topic: str, feed: Feed
) -> None:
    """Nothing published could lack the removed records: the feed begins where its topic begins now."""
    create(kafka, topic)
    send(kafka, topic, messages(6))
    over = extracted(spark, feed)
    remove(kafka, topic, 2)
    extract.run(spark, feed, over)
    assert reads(feed, over) == [SourceRead(f"{topic}[0]", 4, 4, before=2)]


@pytest.mark.long
def test_a_window_that_has_nothing_any_more(
    spark: SparkSession, kafka: KafkaBroker, topic: str, feed: Feed
) -> None:
    """The window read late records because of the position. Run again, it covers only its own time."""
    create(kafka, topic)
    send(kafka, topic, messages(3))
    run(spark, feed, window())
    send(kafka, topic, messages(6)[3:])
    second = window(start=datetime.now(UTC) - timedelta(seconds=1))
    run(spark, feed, second)
    roll_back(lambda: spark, feed, 1, Asked("wrong", "ann"))
    run(spark, feed, window())
    assert extract.run(spark, feed, second) is False
    assert not scans.has_rows(feed.lake.raw, second.id)


def remove(kafka: KafkaBroker, topic: str, before: int) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    wait(admin.delete_records([TopicPartition(topic, 0, before)]))  # type: ignore[arg-type]


def test_the_beginning_was_removed(spark: SparkSession, kafka: KafkaBroker, topic: str, feed: Feed) -> None:
    create(kafka, topic)
    send(kafka, topic, messages(6))
    remove(kafka, topic, 2)
    over = window()
    run(spark, feed, over, (extract, normalize, reconcile, audit))
    assert reads(feed, over) == [SourceRead(f"{topic}[0]", 4, 4, before=2)]
    verdicts = {
        row.rule: row for row in ControlStore(Settings().control_url).audits.of_window(feed.feed, over.id)
    }
    assert verdicts["source_complete"].success
    late = verdicts["source_from_its_beginning"]
    assert (late.success, late.violations, late.detail["stops"]) == (False, 1, False)


def test_marks_of_transactions_are_no_loss(
    spark: SparkSession, kafka: KafkaBroker, topic: str, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(kafka, topic)
    send(kafka, topic, messages(3), **{"transactional.id": topic})
    send(kafka, topic, messages(4)[3:])
    over = extracted(spark, feed)
    assert reads(feed, over) == [SourceRead(f"{topic}[0]", 5, 4)]
    # To read a topic is no right to ask for its policy: what looks like a mark may be lost.
    monkeypatch.setattr(Kafka, "retention", lambda _, __: {})
    (read,) = reads(feed, extracted(spark, feed))
    said = "1 of 5 offsets have no record, and the login may not ask whether the topic is compacted"
    assert read.problem == f"{said} (DESCRIBE_CONFIGS)"


def test_a_compacted_topic(spark: SparkSession, kafka: KafkaBroker, topic: str, feed: Feed) -> None:
    """Offsets without a record, here a transaction's mark, may be records that compaction removed."""
    create(kafka, topic, **{"cleanup.policy": "compact"})
    send(kafka, topic, messages(3), **{"transactional.id": topic})
    send(kafka, topic, messages(4)[3:])
    over = window()
    run(spark, feed, over, (extract, normalize, reconcile))
    (read,) = reads(feed, over)
    assert read.problem == "the topic is compacted: 1 of 5 offsets have no record"
    with pytest.raises(AuditFailed, match="source_complete"):
        audit.run(spark, feed, over)
    # What is gone does not come back with another policy, for this window or the next one.
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    entry = ConfigEntry("cleanup.policy", "delete", incremental_operation=AlterConfigOpType.SET)
    changed = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    wait(admin.incremental_alter_configs([changed]))
    for again in (over, window()):
        extract.run(spark, feed, again)
        ControlStore(Settings().control_url).leases.release(feed.feed, again.holder)
        (read,) = reads(feed, again)
        assert read.problem == "the topic was compacted: 1 of 5 offsets have no record"
