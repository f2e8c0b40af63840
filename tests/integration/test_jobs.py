"""A stage runs the same small number of Spark jobs however many tables the feed has."""

from __future__ import annotations

import json
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

pytestmark = [pytest.mark.integration, pytest.mark.long]

# Two tables, of which one has no late change, and more than are processed at once.
TABLES = (2, 5)
_NAME = CUSTOMERS.full_name.rpartition(".")[2]


def copies(log: Log, prefix: str, tables: int) -> Iterator[list[Message]]:
    """Yields two windows of one table's messages, repeated under the names of several tables.

    For two keys an update is missing, so that the next change breaks the image chain. One of these updates
    comes in the second window, except for the last table; the other never comes.
    """
    of_table = [
        m
        for m in debezium.messages(log, schemas=True, snapshot=True, prefix=prefix)
        if m.topic.endswith(f".{_NAME}")
    ]
    half = len(of_table) // 2
    keys = [message.key for message in of_table[:half]]
    missing = [at for at in range(half) if is_update(of_table[at]) and keys[at] in keys[at + 1 :]]
    late = missing[0]
    lost = next(at for at in missing if keys[at] != keys[late])
    first, second = (
        [
            renamed(of_table[at], f"t{table}")
            for table in range(tables)
            for at in part
            if at not in {late, lost}
        ]
        for part in (range(half), range(half, len(of_table)))
    )
    yield first
    yield [renamed(of_table[late], f"t{at}") for at in range(tables - 1)] + second


def is_update(message: Message) -> bool:
    return message.value is not None and json.loads(message.value)["payload"]["op"] == "u"


def renamed(message: Message, name: str) -> Message:
    value = message.value and message.value.replace(b'"%s"' % _NAME.encode(), b'"%s"' % name.encode())
    return message._replace(topic=message.topic.replace(f".{_NAME}", f".{name}"), value=value)


def broken(spark: SparkSession, feed: Feed) -> list[str]:
    """Returns the table of each break of an image chain."""
    return sorted(row["table"] for row in rows(spark, feed.lake.image_chain_breaks))


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
    """The second window continues from what is published.

    It has updates, deletes and inserts in each table, and a late change, without which the image chain is
    broken.
    """
    log = simulate(17, 60)
    jobs = {}
    for tables in TABLES:
        name = f"jobs_{tables}"
        listed = [{"table": f"dbo.t{at}"} for at in range(tables)]
        feed = message_feed(name, "debezium", kafka, [f"{name}.*"], monkeypatch, tables=listed)
        first, second = copies(log, name, tables)
        by_stage(spark, kafka, feed, first)
        names = [table["table"] for table in listed]
        assert broken(spark, feed) == sorted(2 * names)
        jobs[tables] = by_stage(spark, kafka, feed, second)
        assert broken(spark, feed) == sorted(names + names[-1:])
        alive = len(log.final_rows(CUSTOMERS))
        assert {len(rows(spark, lake_name(feed, f"dbo.t{at}"))) for at in range(tables)} == {alive}
    stages = {stage.__name__.rpartition(".")[2] for stage in (extract, normalize, reconcile, audit, publish)}
    few, many = (jobs[tables] for tables in TABLES)
    assert few.keys() == stages
    assert few == many
    assert few["publish"] == 0
    assert sum(few.values()) <= 40
