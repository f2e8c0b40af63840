"""Qlik's task loads a table again in mid-stream: the rows do not count, and the audit says so."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from changeledger.audit.rules import LOADS_FIRST
from changeledger.config.feed import Feed
from changeledger.config.settings import Settings
from changeledger.control import ControlStore
from changeledger.control.tables.releases import ReleaseRow
from changeledger.model.window import Window
from sourcelab.log import simulate
from sourcelab.messages import Message, produce
from sourcelab.qlik_messages import messages
from sourcelab.services import KafkaBroker
from tests.integration.line import message_feed, run, window

pytestmark = [pytest.mark.integration, pytest.mark.long]

TABLE = "dbo.customers"


def test_a_second_load_is_told(
    spark: SparkSession, kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = simulate(5, 24)
    tables = [{"table": TABLE}]
    feed = message_feed("loaded", "qlik_messages", kafka, ["loaded.*"], monkeypatch, tables=tables)

    def sent(begin: int, end: int) -> list[Message]:
        return list(messages(log, envelope=True, snapshot=True, prefix="loaded", from_tx=begin, to_tx=end))

    def late_loads(part: list[Message]) -> int:
        produce(kafka.bootstrap, part, partitions=1)
        over = window()
        run(spark, feed, over)
        return violations(feed, over)

    load = [message for message in sent(0, 1) if b"REFRESH" in (message.value or b"")]
    of_table = sum(message.topic.endswith(TABLE) for message in load)
    assert of_table
    assert late_loads(sent(0, 1)) == 0
    assert late_loads(load) == 0, "the load goes on in a second window"
    assert releases(feed)[-1].counts["streamed"] == []
    assert late_loads([*sent(1, 16), *load]) == of_table, "behind changes of its own window"
    assert releases(feed)[-1].counts["streamed"] == [TABLE]
    assert late_loads(sent(16, 24)) == 0
    assert late_loads(load) == of_table, "behind changes of earlier windows"


def violations(feed: Feed, over: Window) -> int:
    """Returns the violations of the rule, which stops no run."""
    audits = ControlStore(Settings().control_url).audits.of_window(feed.feed, over.id)
    (verdict,) = [row for row in audits if (row.table, row.rule) == (TABLE, LOADS_FIRST)]
    assert verdict.success == (not verdict.violations)
    return verdict.violations


def releases(feed: Feed) -> list[ReleaseRow]:
    return ControlStore(Settings().control_url).releases.of_feed(feed.feed)
