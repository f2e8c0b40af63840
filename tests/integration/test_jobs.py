"""A stage runs the same few Spark jobs however many tables the feed has."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from changeledger.config.feed import Feed
from changeledger.stages import audit, extract, normalize, publish, reconcile
from sourcelab import debezium
from sourcelab.log import Log, simulate
from sourcelab.messages import Message, produce
from sourcelab.services import KafkaBroker
from sourcelab.tables import CUSTOMERS
from tests.integration.line import STAGES, lake_name, message_feed, rows, window
from tests.spark_jobs import Counter

pytestmark = pytest.mark.integration

# One, and more than are worked on at once.
TABLES = (1, 5)
_NAME = CUSTOMERS.full_name.rpartition(".")[2]


def copies(log: Log, prefix: str, tables: int) -> Iterator[list[Message]]:
    """Two windows of one table's messages, under the names of so many tables."""
    of_table = [
        m
        for m in debezium.messages(log, schemas=True, snapshot=True, prefix=prefix)
        if m.topic.endswith(f".{_NAME}")
    ]
    for part in (of_table[: len(of_table) // 2], of_table[len(of_table) // 2 :]):
        yield [renamed(message, f"t{at}") for at in range(tables) for message in part]


def renamed(message: Message, name: str) -> Message:
    value = message.value and message.value.replace(b'"%s"' % _NAME.encode(), b'"%s"' % name.encode())
    return message._replace(topic=message.topic.replace(f".{_NAME}", f".{name}"), value=value)


def by_stage(spark: SparkSession, kafka: KafkaBroker, feed: Feed, part: list[Message]) -> dict[str, int]:
    produce(kafka.bootstrap, part, partitions=1)
    over, counter = window(), Counter(spark)
    jobs = {}
    for stage in STAGES:
        stage.run(spark, feed, over)
        jobs[stage.__name__.rpartition(".")[2]] = counter.new()
    return jobs


def test_jobs_do_not_grow_with_tables(
    spark: SparkSession, kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second window continues from what is published: updates, deletes and inserts in each table."""
    log = simulate(17, 60)
    jobs = {}
    for tables in TABLES:
        name = f"jobs_{tables}"
        listed = [{"table": f"dbo.t{at}"} for at in range(tables)]
        feed = message_feed(name, "debezium", kafka, [f"{name}.*"], monkeypatch, tables=listed)
        first, second = copies(log, name, tables)
        by_stage(spark, kafka, feed, first)
        jobs[tables] = by_stage(spark, kafka, feed, second)
        alive = len(log.final_rows(CUSTOMERS))
        assert {len(rows(spark, lake_name(feed, f"dbo.t{at}"))) for at in range(tables)} == {alive}
    names = {stage.__name__.rpartition(".")[2] for stage in (extract, normalize, reconcile, audit, publish)}
    few, many = (jobs[tables] for tables in TABLES)
    assert few.keys() == names
    assert few == many
    assert few["publish"] == 0
    assert sum(few.values()) <= 40
