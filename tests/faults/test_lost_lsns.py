"""A Qlik task stops writing LSNs: no run publishes its changes, which would lose against published ones.

Qlik's page "Data messages": `streamPosition` is the position of the source, so another source endpoint writes
it in another form. The form here is MySQL's: file and offset of the binary log.
"""

from __future__ import annotations

import re

import pytest
from pyspark.sql import SparkSession

from changeledger.audit.rules import LSNS_STAY
from changeledger.config.feed import Feed
from changeledger.config.settings import Settings
from changeledger.control import ControlStore
from changeledger.model.errors import AuditFailed
from changeledger.model.window import Request, Window
from sourcelab.log import Log, simulate
from sourcelab.messages import Message, produce
from sourcelab.qlik_messages import messages
from sourcelab.services import KafkaBroker
from tests.integration.line import message_feed, run, window

pytestmark = [pytest.mark.integration, pytest.mark.long]

TABLE = "dbo.customers"
STOPS = rf"dbo\.customers: {LSNS_STAY}: [1-9]"


@pytest.fixture
def log() -> Log:
    return simulate(5, 24)


def sent(log: Log, prefix: str, begin: int, end: int) -> list[Message]:
    return list(messages(log, envelope=True, snapshot=True, prefix=prefix, from_tx=begin, to_tx=end))


def without_lsns(reported: list[Message]) -> list[Message]:
    return [
        message._replace(
            value=re.sub(rb'("streamPosition": ?")[0-9a-fA-F:]+', rb"\1mysql-bin.000001:4", value)
        )
        for message in reported
        if (value := message.value) is not None
    ]


def publish(spark: SparkSession, kafka: KafkaBroker, feed: Feed, part: list[Message]) -> Window:
    produce(kafka.bootstrap, part, partitions=1)
    over = window()
    run(spark, feed, over)
    return over


def with_lsns(feed: Feed) -> list[str]:
    counts = ControlStore(Settings().control_url).releases.of_feed(feed.feed)[-1].counts
    return list(counts["with_lsns"])


def test_a_later_window_stops(
    spark: SparkSession, kafka: KafkaBroker, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = message_feed("lost", "qlik_messages", kafka, ["lost.*"], monkeypatch, tables=[{"table": TABLE}])
    publish(spark, kafka, feed, sent(log, "lost", 0, 1))
    assert with_lsns(feed) == [], "rows of a load have no position"
    publish(spark, kafka, feed, sent(log, "lost", 1, 12))
    assert with_lsns(feed) == [TABLE]
    with pytest.raises(AuditFailed, match=STOPS):
        publish(spark, kafka, feed, without_lsns(sent(log, "lost", 12, 24)))
    tolerant = Request(tolerate="error", reason="we know it")
    run(spark, feed, window().model_copy(update={"request": tolerant}))


def test_a_window_with_both_forms_stops(
    spark: SparkSession, kafka: KafkaBroker, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = message_feed("both", "qlik_messages", kafka, ["both.*"], monkeypatch, tables=[{"table": TABLE}])
    both = [*sent(log, "both", 0, 12), *without_lsns(sent(log, "both", 12, 24))]
    with pytest.raises(AuditFailed, match=STOPS):
        publish(spark, kafka, feed, both)


def test_a_source_that_never_had_lsns_goes_on(
    spark: SparkSession, kafka: KafkaBroker, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = message_feed("never", "qlik_messages", kafka, ["never.*"], monkeypatch, tables=[{"table": TABLE}])
    publish(spark, kafka, feed, without_lsns(sent(log, "never", 0, 12)))
    publish(spark, kafka, feed, without_lsns(sent(log, "never", 12, 24)))
    assert with_lsns(feed) == []
