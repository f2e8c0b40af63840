"""Feeds that cannot read on: their windows succeed and are empty, and what they saw at the source is late."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from changeledger.config.feed import Feed
from changeledger.config.settings import Settings
from changeledger.control import ControlStore
from changeledger.model.source_state import NOT_CAPTURED, OPEN_TRANSACTION
from changeledger.model.window import SourceRead
from changeledger.stages import audit, extract, normalize, reconcile
from changeledger.state.status import gather
from sourcelab import sqlserver_cdc
from sourcelab.log import simulate
from sourcelab.messages import in_order
from sourcelab.services import KafkaBroker, Postgres
from tests.faults.test_sources import TABLE, create, extracted, messages, reads, released, send, wait
from tests.integration.line import cdc_feed, message_feed, run, window

pytestmark = pytest.mark.integration

_SECONDS = 60
AT_ONCE = timedelta(microseconds=1)
# 2100-01-01
FUTURE_MS = 4_102_444_800_000


@pytest.fixture
def topic(kafka: KafkaBroker, request: pytest.FixtureRequest) -> Iterator[str]:
    name = re.sub(r"\W+", "_", request.node.name.replace("test_", "still_"))[:50].strip("_").lower()
    # Since Kafka 4, brokers refuse times in the future unless told not to.
    create(kafka, name, **{"message.timestamp.after.max.ms": str(2**62)})
    yield name
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    wait(admin.delete_topics([name]))


@pytest.fixture
def feed(kafka: KafkaBroker, topic: str, monkeypatch: pytest.MonkeyPatch) -> Feed:
    reported = {"tables": [{"table": TABLE}], "deadline": AT_ONCE}
    return message_feed(topic, "debezium", kafka, [topic], monkeypatch, **reported)


def test_a_message_of_a_time_to_come_holds_nothing_back(
    spark: SparkSession, kafka: KafkaBroker, topic: str, feed: Feed
) -> None:
    first, ahead, *others = messages(5)
    send(kafka, topic, [first, ahead._replace(timestamp_ms=FUTURE_MS), *others])
    over = extracted(spark, feed)
    assert reads(feed, over) == [SourceRead(f"{topic}[0]", 5, 5)]
    (state,) = ControlStore(Settings().control_url).sources.states(feed.feed).values()
    assert (state.read, state.end, state.behind, state.since) == ("5", "5", 0, None)
    assert state.is_odd
    assert "has the time 2100-01-01 00:00:00 UTC" in state.text()


def test_a_message_of_a_time_to_come_is_read_once(
    spark: SparkSession, kafka: KafkaBroker, topic: str, feed: Feed
) -> None:
    """It is the first one of every window's time, and so the window would begin there."""
    first, ahead, *others = messages(6)
    send(kafka, topic, [first, ahead._replace(timestamp_ms=FUTURE_MS), *others[:-1]])
    over = released(spark, feed)
    send(kafka, topic, others[-1:])
    following = window(start=over.end)
    extract.run(spark, feed, following)
    assert reads(feed, following) == [SourceRead(f"{topic}[0]", 1, 1)]


def test_an_open_transaction_is_late(spark: SparkSession, kafka: KafkaBroker, topic: str, feed: Feed) -> None:
    """Every later window ends where the transaction begins, whatever other producers write after it."""
    first, hanging, *others = messages(4)
    send(kafka, topic, [first])
    producer = in_order(
        {
            "bootstrap.servers": kafka.bootstrap,
            "transactional.id": topic,
            "transaction.timeout.ms": 600_000,
        }
    )
    producer.init_transactions(_SECONDS)
    producer.begin_transaction()
    producer.produce(topic, hanging.value, hanging.key)
    assert producer.flush(_SECONDS) == 0
    send(kafka, topic, others)
    over = window()
    run(spark, feed, over, (extract, normalize, reconcile, audit))
    control = ControlStore(Settings().control_url)
    control.leases.release(feed.feed, over.holder)
    assert reads(feed, over) == [SourceRead(f"{topic}[0]", 1, 1)]
    status = gather(control, feed)
    (state,) = status.sources
    assert (state.read, state.end, state.behind, state.why) == ("1", "4", 3, OPEN_TRANSACTION)
    assert len(status.late) == 1
    assert status.late[0].startswith(f"{topic}[0]: 3 records behind the end, since ")
    rule = {row.rule: row for row in control.audits.of_window(feed.feed, over.id)}["source_is_read_on"]
    assert (rule.success, rule.violations, rule.detail["stops"]) == (False, 1, False)
    producer.abort_transaction(_SECONDS)
    over = extracted(spark, feed)
    (read,) = reads(feed, over)
    assert (read.received, read.problem) == (3, None), "all but the record of the aborted transaction"
    assert gather(control, feed).late == ()


def test_a_stopped_capture_is_late(
    spark: SparkSession, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a day nothing is captured, not even the marks of an idle log: windows succeed and are empty."""
    log = simulate(5, 12, datetime.now(UTC) - timedelta(days=2))
    sqlserver_cdc.load(postgres.url, log)
    feed = cdc_feed("stopped_capture", postgres, monkeypatch, tables=[{"table": TABLE}])
    extracted(spark, feed)
    status = gather(ControlStore(Settings().control_url), feed)
    (state,) = status.sources
    assert (state.source, state.why) == ("cdc.lsn_time_mapping", NOT_CAPTURED)
    assert state.newest == log.transactions[-1].commit_time
    assert state.end == log.transactions[-1].commit_lsn.hex().upper()
    assert status.late == (state.text(),)
