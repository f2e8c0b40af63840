"""An extract that has not ended: no later stage takes what it left for the window's records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

from changeledger.config.feed import Feed
from changeledger.config.settings import Settings
from changeledger.control import BuiltSnapshots, ControlStore
from changeledger.lake import writes
from changeledger.model.errors import AuditFailed, StageOrderError
from changeledger.model.window import Window
from changeledger.stages import audit, extract, normalize, publish, reconcile
from sourcelab import sqlserver_cdc
from sourcelab.log import simulate
from sourcelab.services import KafkaBroker, Postgres
from sourcelab.tables import CUSTOMERS
from tests.faults.test_sources import TABLE, create, messages, send
from tests.integration.line import cdc_feed, lake_name, message_feed, run, window
from tests.stored_rows import stored_rows

pytestmark = [pytest.mark.integration, pytest.mark.long]

LATER = (normalize, reconcile, audit, publish)


class Killed(Exception):
    pass


def half_done(spark: SparkSession, feed: Feed, over: Window, dies: Callable[[str], bool]) -> None:
    """Ends extract when it is about to write a raw table for which `dies` is true."""
    usual = writes.replace_window

    def write(written: Any, table: str, *arguments: Any) -> Any:
        if dies(table):
            raise Killed
        return usual(written, table, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writes, "replace_window", write)
        with pytest.raises(Killed):
            extract.run(spark, feed, over)


def marked_as_ended(feed: Feed, over: Window) -> None:
    """Removes the protection of the stage order: extract counts as ended."""
    control = ControlStore(Settings().control_url)
    control.windows.finish_stage(feed.feed, over, "extract", BuiltSnapshots("none", {}))


def is_stopped(spark: SparkSession, feed: Feed, over: Window, sources: str) -> None:
    """Asserts that the run is stopped by the order of stages, and then by the rule.

    The rule starts from the window's stored range.
    """
    with pytest.raises(StageOrderError, match=r"extract of the window .* has not finished"):
        run(spark, feed, over, LATER)
    marked_as_ended(feed, over)
    run(spark, feed, over, (normalize, reconcile))
    with pytest.raises(AuditFailed, match=rf"source_complete: .* violation.*\n +source={sources}"):
        audit.run(spark, feed, over)
    with pytest.raises(StageOrderError, match="source_complete"):
        publish.run(spark, feed, over)


def test_messages_of_which_none_is_in_raw(
    spark: SparkSession, kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(kafka, "half_read")
    send(kafka, "half_read", messages(1))
    feed = message_feed("half_read", "debezium", kafka, ["half_read"], monkeypatch, tables=[{"table": TABLE}])
    first = window()
    run(spark, feed, first)
    send(kafka, "half_read", messages(7)[1:])
    over = window(start=first.end)
    half_done(spark, feed, over, lambda _: True)
    is_stopped(spark, feed, over, r"half_read\[0\], why=asked for 6, received 0")
    run(spark, feed, over)
    assert len(stored_rows(lake_name(feed, TABLE, "_changes"))) == 7


def test_change_tables_of_which_one_is_in_raw(
    spark: SparkSession, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = simulate(5, 24)
    sqlserver_cdc.load(postgres.url, log, to_tx=12)
    tables = [{"table": "dbo.customers"}, {"table": "dbo.parts"}]
    feed = cdc_feed("half_read_tables", postgres, monkeypatch, tables=tables)
    first = window()
    run(spark, feed, first)
    sqlserver_cdc.append(postgres.url, log, 12, len(log.transactions))
    over = window(start=first.end)
    half_done(spark, feed, over, lambda table: "customers" in table)
    is_stopped(spark, feed, over, "dbo_customers, why=asked for ")
    run(spark, feed, over)
    published = {row["id"] for row in stored_rows(lake_name(feed, CUSTOMERS.full_name))}
    assert published == {key[0] for key in log.final_rows(CUSTOMERS)}


def test_nothing_came_of_what_was_asked_for(
    spark: SparkSession, kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a window is not closed as an empty one: its position would move past what is missing."""
    create(kafka, "nothing_came", **{"cleanup.policy": "compact"})
    feed = message_feed(
        "nothing_came", "debezium", kafka, ["nothing_came"], monkeypatch, tables=[{"table": TABLE}]
    )
    send(kafka, "nothing_came", messages(1))
    first = window()
    run(spark, feed, first)
    send(kafka, "nothing_came", messages(1), aborted=True, **{"transactional.id": "nothing_came"})
    over = window(start=first.end)
    run(spark, feed, over, (extract, normalize, reconcile))
    with pytest.raises(AuditFailed, match=r"source_complete: 1 violation"):
        audit.run(spark, feed, over)
