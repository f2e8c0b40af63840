"""Tables without a message in a window, windows without a change, and tables that join a feed later.

They stop no feed and change no row. The run that first sees a table says what it lacks.
"""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from pyspark.sql import DataFrame, SparkSession
from sqlalchemy import Select

from changeledger.config.feed import Feed
from changeledger.config.settings import Settings
from changeledger.control import ControlStore
from changeledger.jdbc.database import JdbcDatabase
from changeledger.lake import catalog
from changeledger.model import change
from changeledger.model.table_names import TableNames
from changeledger.model.window import Request, Window
from changeledger.stages import extract
from changeledger.state import status
from sourcelab import ces, debezium, qlik_messages, sqlserver_cdc
from sourcelab.log import Log, Transaction, simulate
from sourcelab.messages import Message, milliseconds, produce
from sourcelab.postgres import plain_url
from sourcelab.services import KafkaBroker, Postgres
from sourcelab.tables import Table
from tests.integration.line import (
    STAGES,
    assert_whole,
    carry,
    cdc_feed,
    message_feed,
    rows,
    run,
    window,
    without_spark,
)

pytestmark = pytest.mark.integration

CUSTOMERS, ORDERS, PARTS = "dbo.customers", "sales.orders", "dbo.parts"
# Dialect, the table whose columns the feed's YAML declares, and whether the joining table was written before.
FEEDS = [
    pytest.param("debezium", ORDERS, True, id="debezium", marks=pytest.mark.long),
    pytest.param("ces", PARTS, False, id="ces", marks=pytest.mark.long),
    pytest.param("qlik_messages", None, True, id="qlik_messages", marks=pytest.mark.long),
]


@pytest.fixture(scope="module")
def log() -> Log:
    return simulate(11, 30)


@pytest.mark.parametrize(("dialect", "declared", "has_past"), FEEDS)
def test_quiet_tables(
    spark: SparkSession,
    kafka: KafkaBroker,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    log: Log,
    dialect: str,
    declared: str | None,
    has_past: bool,
) -> None:
    """Messages of the declared table have no schema block, if the dialect leaves the choice."""
    source = Source(log, dialect, f"quiet_{dialect}", declared)
    feed = source.feed(kafka, monkeypatch, [CUSTOMERS, ORDERS])
    late = source.feed(kafka, monkeypatch, [CUSTOMERS, ORDERS, PARTS])
    past = source.some(PARTS) if has_past else []
    windows: list[tuple[Feed, list[Message]]] = [
        (feed, [*source.some(CUSTOMERS), *source.some(ORDERS), *past]),
        # Nothing of one table; of the other, one unreadable message beside readable ones.
        (feed, [*source.broken(ORDERS), *source.remaining(ORDERS)]),
        # No change at all: only a control message, or a part of an event.
        (feed, source.control() or source.waiting(CUSTOMERS)),
        # The YAML gains a table; of the old ones, one is quiet and one continues.
        (late, [*source.remaining(PARTS), *source.remaining(CUSTOMERS)]),
    ]
    begin = window().start
    for of_window, messages in windows:
        produce(kafka.bootstrap, messages, partitions=1)
        over = window(start=begin)
        with caplog.at_level(logging.WARNING, "changeledger"):
            run(spark, of_window, over)
        begin = over.end
    over = window(start=begin)
    assert extract.run(without_spark, late, over) is False, (
        "a window without a message is closed without other stages"
    )
    if has_past:
        read_its_past(spark, late, source.changes(past), caplog.text)
    assert lacking(late) == ()
    assert_whole(late, log, CUSTOMERS, ORDERS, PARTS)
    # Each run that read the record quarantined it, yet it is there once.
    quarantined = {repr(row["source_position"]) for row in rows(spark, feed.lake.quarantine)}
    assert len(quarantined) == 1, quarantined


def test_change_tables(spark: SparkSession, postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a table without a row in the window, the source is only asked for the number of rows.

    Its tables in the lake each get a tag, and nothing else.
    """
    whole = simulate(5, 24)
    log = replace(
        whole,
        transactions=(*whole.transactions[:12], *(_of(CUSTOMERS, tx) for tx in whole.transactions[12:])),
    )
    feed = cdc_feed("quiet_cdc", postgres, monkeypatch, tables=[{"table": CUSTOMERS}, {"table": PARTS}])
    asked: list[str] = []
    usual = JdbcDatabase.read

    def read(database: JdbcDatabase, spark: SparkSession, queries: Sequence[Select[Any]]) -> DataFrame:
        asked.extend(map(database.sql, queries))
        return usual(database, spark, queries)

    monkeypatch.setattr(JdbcDatabase, "read", read)
    sqlserver_cdc.load(postgres.url, log, to_tx=12)
    first = window()
    run(spark, feed, first)
    assert any("dbo_parts_CT" in query for query in asked)
    asked.clear()
    of_parts = TableNames.of(feed.namespace, PARTS)
    commits = {name: len(catalog.load(name).metadata.metadata_log) for name in of_parts}
    sqlserver_cdc.append(postgres.url, log, 12, len(log.transactions))
    run(spark, feed, window(start=first.end))
    assert asked
    assert not any("dbo_parts_CT" in query for query in asked)
    assert {name: len(catalog.load(name).metadata.metadata_log) - commits[name] for name in of_parts} == (
        dict.fromkeys(of_parts, 1)
    )
    assert_whole(feed, log, CUSTOMERS, PARTS)


@pytest.mark.long
def test_a_change_table_that_is_quiet_at_the_second_try(
    spark: SparkSession, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows that the first try read are gone from the source, and then also from the raw table."""
    feed = cdc_feed("quiet_later", postgres, monkeypatch, tables=[{"table": CUSTOMERS}, {"table": PARTS}])
    sqlserver_cdc.load(postgres.url, simulate(5, 12))
    raw, over = feed.names[PARTS].raw, window()
    run(spark, feed, over, STAGES[:1])
    assert rows(spark, raw)
    with psycopg.connect(plain_url(postgres.url)) as source:
        source.execute('DELETE FROM cdc."dbo_parts_CT"')
    run(spark, feed, over, STAGES[:1])
    assert not rows(spark, raw)


def test_a_table_that_is_left_out_between_two_tries(
    spark: SparkSession, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The window then covers only the other tables: the audit must not look for the table at each try."""
    feed, fewer = (
        cdc_feed("left_out_between", postgres, monkeypatch, tables=[{"table": name} for name in names])
        for names in ((CUSTOMERS, PARTS), (CUSTOMERS,))
    )
    sqlserver_cdc.load(postgres.url, simulate(5, 12))
    over, control = window(), ControlStore(Settings().control_url)
    for of_try, names in ((feed, {CUSTOMERS, PARTS}), (fewer, {CUSTOMERS})):
        run(spark, of_try, over, STAGES[:1])
        stored = control.windows.row(feed.feed, over.id)
        assert stored is not None
        assert stored.to_position.keys() == names


def _of(table: str, transaction: Transaction) -> Transaction:
    changes = tuple(change for change in transaction.changes if change.table.full_name == table)
    return replace(transaction, changes=changes)


@pytest.mark.long
def test_a_table_that_the_feed_leaves_out_for_a_time(
    spark: SparkSession,
    kafka: KafkaBroker,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    log: Log,
) -> None:
    """Records that the feed passed over meanwhile are reported, as for a table that joins."""
    source = Source(log, "debezium", "left_out", None)
    feed, fewer = (source.feed(kafka, monkeypatch, names) for names in ([CUSTOMERS, PARTS], [CUSTOMERS]))
    before = [*source.some(PARTS), *source.some(CUSTOMERS)]
    meanwhile = [*source.some(PARTS), *source.remaining(CUSTOMERS)]
    # The table is listed again when the third window is already extracted.
    windows = [
        (feed, feed, before),
        (fewer, fewer, meanwhile),
        (fewer, feed, source.remaining(PARTS)),
    ]
    begin = window().start
    with caplog.at_level(logging.WARNING, "changeledger"):
        for of_extract, of_window, messages in windows:
            # Otherwise it would be the log's time, before all windows.
            now_ms = milliseconds(datetime.now(UTC))
            sent = [message._replace(timestamp_ms=now_ms) for message in messages]
            produce(kafka.bootstrap, sent, partitions=1)
            over = window(start=begin)
            run(spark, of_extract, over, STAGES[:1])
            run(spark, of_window, over, STAGES[1:])
            begin = over.end
    passed_over = [message for message in meanwhile if message.topic.endswith(PARTS)]
    ((_, changes, *_),) = lacking(feed)
    assert changes <= len(passed_over), "not what it has read before"
    read_its_past(spark, feed, source.changes(passed_over), caplog.text)
    assert lacking(feed) == ()
    assert_whole(feed, log, PARTS)
    # Left out and listed once more: what was read meanwhile is not lacking, nor is a half of a key update.
    for of_window in (fewer, feed):
        begin = carry(spark, kafka, of_window, source.control(), begin)
    assert lacking(feed) == ()


def lacking(feed: Feed) -> tuple[Any, ...]:
    """Returns the tables whose earlier changes were passed over."""
    return status.gather(ControlStore(Settings().control_url), feed).incomplete


def read_its_past(spark: SparkSession, feed: Feed, passed_over: int, said: str) -> None:
    """Asserts that the table is complete after its time is read again for it alone."""
    ((table, changes, since, until),) = lacking(feed)
    assert table == PARTS
    assert changes >= passed_over > 0
    assert f"{table} is new to the feed and lacks {changes:,} earlier changes" in said
    again = Window(start=since, end=until, request=Request(mode="window", tables=(table,), run="manual__1"))
    run(spark, feed, again)
    others = spark.table(feed.lake.dispositions).where(f"window_id = '{again.id}'").collect()
    reasons = {row["reason"] for row in others if (row["detail"] or "").lower() == CUSTOMERS}
    assert reasons == {change.TABLE_NOT_CHOSEN}


class Source:
    """The messages of one dialect, handed out table by table, in the order of each table's topic."""

    def __init__(self, log: Log, dialect: str, prefix: str, declared: str | None) -> None:
        self.log, self.dialect, self.prefix, self.declared = log, dialect, prefix, declared
        self.queues: dict[str, deque[Message]] = {t.full_name: deque() for t in log.tables}
        for schemas in (True, False):
            for message in self._all(schemas):
                table = next((t for t in self.queues if self._is_of(message, t)), None)
                if table is not None and schemas == (table != declared):
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

    def feed(self, kafka: KafkaBroker, patch: pytest.MonkeyPatch, names: list[str]) -> Feed:
        tables = [self._listed(self.log.table(name)) for name in names]
        topics = [self.prefix] if self.dialect == "ces" else [f"{self.prefix}.*"]
        if self.dialect == "debezium":
            topics.append(f"__debezium-heartbeat.{self.prefix}")
        return message_feed(self.prefix, self.dialect, kafka, topics, patch, tables=tables)

    def _listed(self, table: Table) -> Mapping[str, Any]:
        if table.full_name != self.declared:
            return {"table": table.full_name}
        columns = [{"name": c.name, "type": c.type, "nullable": c.nullable} for c in table.columns]
        return {"table": table.full_name, "key": list(table.key), "columns": columns}

    def some(self, table: str) -> list[Message]:
        """Returns a third of the table's messages, without cutting a split event."""
        queue = self.queues[table]
        taken = [queue.popleft() for _ in range(self.sizes[table] // 3)]
        while self.dialect == "ces" and _event(taken[-1]) == _event(queue[0]):
            taken.append(queue.popleft())
        return taken

    def changes(self, messages: list[Message]) -> int:
        """Counts the changes in the messages; a snapshot's rows count, too."""
        if self.dialect == "ces":
            return len({_event(message) for message in messages})
        if self.dialect == "debezium":
            return sum(message.value is not None for message in messages)
        return sum(b'"operation"' in (message.value or b"") for message in messages)

    def remaining(self, table: str) -> list[Message]:
        taken, self.queues[table] = list(self.queues[table]), deque()
        return taken

    def control(self) -> list[Message]:
        """Returns a heartbeat, or repeated metadata. CES has no such messages."""
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
        """Returns the first segment of an event whose other segments come later."""
        queue = self.queues[table]
        assert _event(queue[0]) == _event(queue[1]), "the log's events are split"
        return [queue.popleft()]


def _event(message: Message) -> str:
    return str(json.loads(message.value or b"{}")["logicalid"])
