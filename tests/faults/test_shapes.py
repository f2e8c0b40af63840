"""A source that changes its tables: what fits is widened, what does not stops the run and is named."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import SparkSession

from changeledger.errors import AuditFailed
from changeledger.stages import audit, extract, normalize, reconcile
from sourcelab import ces
from sourcelab.log import simulate
from sourcelab.messages import Message, produce
from sourcelab.services import KafkaBroker
from tests.integration.line import lake_name, message_feed, rows, run, window

pytestmark = pytest.mark.integration

TABLE = "sales.orders"
LOG = simulate(4, 16)


def told(topic: str, first: int, last: int, **types: str) -> list[Message]:
    """Messages of one table, in which columns have other types than in the log."""

    def as_told(message: Message) -> Message:
        envelope: dict[str, Any] = json.loads(message.value or b"{}")
        data = json.loads(envelope["data"])
        for column in data["eventsource"]["cols"]:
            column["type"] = types.get(column["name"], column["type"])
        return message._replace(value=json.dumps({**envelope, "data": json.dumps(data)}).encode())

    streamed = ces.messages(LOG, topic=topic, from_tx=first, to_tx=last)
    return [as_told(m) for m in streamed if m.key == TABLE.encode()]


def test_a_type_that_grows_is_widened(
    spark: SparkSession, kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = message_feed("grows", "ces", kafka, ["grows"], monkeypatch, tables=[{"table": TABLE}])
    produce(kafka.bootstrap, told("grows", 0, 8), partitions=1)
    run(spark, feed, window())
    produce(kafka.bootstrap, told("grows", 8, 17, stock="bigint"), partitions=1)
    run(spark, feed, window())
    table = spark.table(lake_name(feed, TABLE))
    assert dict(table.dtypes)["stock"] == "bigint"
    found = {(row["region"], row["order_no"]): row["stock"] for row in table.collect()}
    wanted = {key: row["stock"] for key, row in LOG.final_rows(LOG.table(TABLE)).items()}
    assert found == wanted


def test_a_type_that_turns_into_another_stops_the_run(
    spark: SparkSession, kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = message_feed("turns", "ces", kafka, ["turns"], monkeypatch, tables=[{"table": TABLE}])
    produce(kafka.bootstrap, told("turns", 0, 8), partitions=1)
    run(spark, feed, window())
    before = rows(spark, lake_name(feed, TABLE))
    produce(kafka.bootstrap, told("turns", 8, 17, stock="nvarchar(10)"), partitions=1)
    over = window()
    run(spark, feed, over, (extract, normalize, reconcile))
    with pytest.raises(AuditFailed, match="shapes_fit_contracts") as failed:
        audit.run(spark, feed, over)
    assert f"{TABLE}.stock changed its type from smallint to nvarchar(10)" in str(failed.value)
    assert rows(spark, lake_name(feed, TABLE)) == before
