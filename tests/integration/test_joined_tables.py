"""A table that joins a feed of messages later: the run that first sees it says what it lacks."""

from __future__ import annotations

import logging
from collections.abc import Iterable

import pytest
from pyspark.sql import SparkSession

from changeledger.config.feed import Feed
from changeledger.config.settings import Settings
from changeledger.control import ControlStore
from changeledger.model import change
from changeledger.model.window import Request, Window
from changeledger.state import status
from sourcelab import ces, debezium, qlik_messages
from sourcelab.log import Log, simulate
from sourcelab.messages import Message, produce
from sourcelab.services import KafkaBroker
from sourcelab.tables import CUSTOMERS, ORDERS
from tests.integration.line import lake_name, message_feed, rows, run, window

pytestmark = pytest.mark.integration

CUT = 30


@pytest.fixture(scope="module")
def log() -> Log:
    return simulate(8, 60)


def messages(dialect: str, log: Log, prefix: str, first: int, last: int | None) -> Iterable[Message]:
    if dialect == "debezium":
        return debezium.messages(log, prefix=prefix, schemas=True, snapshot=False, from_tx=first, to_tx=last)
    if dialect == "ces":
        return ces.messages(log, topic=f"{prefix}.all", from_tx=first, to_tx=last)
    return qlik_messages.messages(
        log, prefix=prefix, envelope=True, snapshot=False, from_tx=first, to_tx=last
    )


@pytest.mark.parametrize("dialect", ["debezium", "ces", "qlik_messages"])
def test_a_table_that_joins_later(
    dialect: str,
    spark: SparkSession,
    kafka: KafkaBroker,
    log: Log,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    name = f"joins_{dialect}"
    tables = [{"table": table.full_name} for table in (CUSTOMERS, ORDERS)]

    def feed(count: int) -> Feed:
        return message_feed(name, dialect, kafka, [f"{name}.*"], monkeypatch, tables=tables[:count])

    produce(kafka.bootstrap, messages(dialect, log, name, 0, CUT), partitions=1)
    first = window()
    run(spark, feed(1), first)
    control = ControlStore(Settings().control_url)
    assert status.gather(control, feed(1)).incomplete == ()
    produce(kafka.bootstrap, messages(dialect, log, name, CUT, None), partitions=1)
    whole = feed(2)
    with caplog.at_level(logging.WARNING, "changeledger"):
        run(spark, whole, window(start=first.end))
    ((table, lacking, since, until),) = status.gather(control, whole).incomplete
    assert table == ORDERS.full_name
    passed_over = sum(c.table is ORDERS for t in log.transactions[:CUT] for c in t.changes)
    assert lacking >= passed_over > 0
    assert f"{table} is new to the feed and lacks {lacking:,} earlier changes" in caplog.text
    assert since is not None
    assert until is not None
    assert len(rows(spark, lake_name(whole, table))) < len(log.final_rows(ORDERS))

    request = Request(mode="window", tables=(table,), run="manual__1")
    again = Window(start=since, end=until, request=request)
    run(spark, whole, again)
    assert status.gather(control, whole).incomplete == ()
    published = {tuple(row[name] for name in ORDERS.key) for row in rows(spark, lake_name(whole, table))}
    assert published == set(log.final_rows(ORDERS))
    others = spark.table(whole.lake.dispositions).where(f"window_id = '{again.id}'").collect()
    reasons = {row["reason"] for row in others if (row["detail"] or "").lower() == CUSTOMERS.full_name}
    assert reasons == {change.TABLE_NOT_CHOSEN}
