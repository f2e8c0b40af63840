"""Tables without a message in a window, and windows without a change, stop no feed and change no row."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from pyspark.sql import SparkSession

from changeledger.config.feed import Feed
from changeledger.stages import extract
from sourcelab import ces, debezium, qlik_messages
from sourcelab.log import Log, simulate
from sourcelab.messages import Message, produce
from sourcelab.services import KafkaBroker
from sourcelab.tables import Table
from tests.integration.line import lake_name, message_feed, plain, rows, run, window, without_spark

pytestmark = pytest.mark.integration

CUSTOMERS, ORDERS, PARTS = "dbo.customers", "sales.orders", "dbo.parts"
# Dialect, and whether the feed's YAML declares the columns.
FEEDS = [("debezium", False), ("debezium", True), ("ces", False), ("qlik_messages", False)]


@pytest.fixture(scope="module")
def log() -> Log:
    return simulate(11, 30)


@pytest.mark.parametrize(("dialect", "declared"), FEEDS, ids=str)
def test_quiet_tables(
    spark: SparkSession,
    kafka: KafkaBroker,
    monkeypatch: pytest.MonkeyPatch,
    log: Log,
    dialect: str,
    declared: bool,
) -> None:
    name = f"quiet_{dialect}_{'declared' if declared else 'discovered'}"
    source = Source(log, dialect, name, schemas=not declared)
    feed = source.feed(kafka, monkeypatch, [CUSTOMERS, ORDERS], declared)
    late = source.feed(kafka, monkeypatch, [CUSTOMERS, ORDERS, PARTS], declared)
    windows: list[tuple[Feed, list[Message]]] = [
        (feed, [*source.some(CUSTOMERS), *source.some(ORDERS)]),
        # Nothing of one table, and of the other nothing that can be read beside what can.
        (feed, [*source.broken(ORDERS), *source.some(ORDERS)]),
        # No change at all: a control message, or a part of an event.
        (feed, source.control() or source.waiting(CUSTOMERS)),
        # The YAML gets a table whose topic comes now; the others are quiet.
        (late, source.some(PARTS)),
        (late, [m for table in (CUSTOMERS, ORDERS, PARTS) for m in source.rest(table)]),
    ]
    begin = window().start
    for of_window, messages in windows:
        produce(kafka.bootstrap, messages, partitions=1)
        over = window(start=begin)
        run(spark, of_window, over)
        begin = over.end
    over = window(start=begin)
    assert extract.run(without_spark, late, over) is False, (
        "a window without a message is closed without other stages"
    )
    for table in (CUSTOMERS, ORDERS, PARTS):
        assert published(spark, late, log.table(table)) == log.final_rows(log.table(table)), table
    quarantined = [row["reason"] for row in rows(spark, feed.lake.quarantine)]
    assert len(quarantined) == 1, quarantined


def published(spark: SparkSession, feed: Feed, table: Table) -> dict[Any, Any]:
    return {
        tuple(row[name] for name in table.key): {n: plain(row[n]) for n in table.names}
        for row in rows(spark, lake_name(feed, table.full_name))
    }


class Source:
    """The messages of one dialect, handed out table by table, in the order of each table's topic."""

    def __init__(self, log: Log, dialect: str, prefix: str, *, schemas: bool) -> None:
        self.log, self.dialect, self.prefix = log, dialect, prefix
        self.queues: dict[str, deque[Message]] = {t.full_name: deque() for t in log.tables}
        for message in self._all(schemas):
            table = next((t for t in self.queues if self._is_of(message, t)), None)
            if table is not None:
                self.queues[table].append(message)
        self.sizes = {table: len(queue) for table, queue in self.queues.items()}

    def _all(self, schemas: bool) -> Iterator[Message]:
        if self.dialect == "debezium":
            return debezium.messages(self.log, schemas=schemas, snapshot=True, prefix=self.prefix)
        if self.dialect == "ces":
            return ces.messages(self.log, split_at=300, topic=self.prefix)
        return qlik_messages.messages(self.log, envelope=schemas, snapshot=True, prefix=self.prefix)

    def _is_of(self, message: Message, table: str) -> bool:
        return message.key == table.encode() if self.dialect == "ces" else message.topic.endswith(f".{table}")

    def feed(self, kafka: KafkaBroker, patch: pytest.MonkeyPatch, names: list[str], declared: bool) -> Feed:
        tables = [self._declared(self.log.table(n)) if declared else {"table": n} for n in names]
        topics = [self.prefix] if self.dialect == "ces" else [f"{self.prefix}.*"]
        if self.dialect == "debezium":
            topics.append(f"__debezium-heartbeat.{self.prefix}")
        return message_feed(self.prefix, self.dialect, kafka, topics, patch, tables=tables)

    def _declared(self, table: Table) -> Mapping[str, Any]:
        columns = [{"name": c.name, "type": c.type, "nullable": c.nullable} for c in table.columns]
        return {"table": table.full_name, "key": list(table.key), "columns": columns}

    def some(self, table: str) -> list[Message]:
        """A third of the table's messages, all segments of a split event among them."""
        queue = self.queues[table]
        taken = [queue.popleft() for _ in range(self.sizes[table] // 3)]
        while self.dialect == "ces" and _event(taken[-1]) == _event(queue[0]):
            taken.append(queue.popleft())
        return taken

    def rest(self, table: str) -> list[Message]:
        taken, self.queues[table] = list(self.queues[table]), deque()
        return taken

    def control(self) -> list[Message]:
        """A heartbeat, or metadata that is sent again; CES has nothing of the kind."""
        first = next(iter(self._all(schemas=True)))
        heartbeat = first._replace(
            topic=f"__debezium-heartbeat.{self.prefix}",
            key=b"{}",
            value=f'{{"ts_ms": {first.timestamp_ms}}}'.encode(),
        )
        return {"debezium": [heartbeat], "ces": [], "qlik_messages": [first]}[self.dialect]

    def broken(self, table: str) -> list[Message]:
        first = next(m for m in self._all(schemas=True) if self._is_of(m, table))
        return [first._replace(value=b'{"broken')]

    def waiting(self, table: str) -> list[Message]:
        """The first segment of an event whose others come later."""
        queue = self.queues[table]
        assert _event(queue[0]) == _event(queue[1]), "the log's events are split"
        return [queue.popleft()]


def _event(message: Message) -> str:
    return str(json.loads(message.value or b"{}")["logicalid"])
