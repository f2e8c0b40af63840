"""Debezium's real engine captures a real PostgreSQL into the real broker, and the feed is published."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import SparkSession

from changeledger.config.connection import Connection
from changeledger.config.feed import Feed
from changeledger.config.settings import PROJECT
from changeledger.kafka.topics import Kafka
from sourcelab.services import KafkaBroker, Postgres, java
from tests.integration.line import message_feed, run, window
from tests.stored_rows import stored_rows

pytestmark = pytest.mark.integration

PREFIX = "real"
TOPIC = f"{PREFIX}.public.items"
# The engine ends before a thorough JIT compiler pays off.
QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
CREATE = """
CREATE TABLE items (
  id int PRIMARY KEY, name text, price numeric(10,2), born date, seen timestamp(6), sure boolean,
  data bytea, big bigint, ratio double precision
)
"""
SNAPSHOT = """
INSERT INTO items VALUES
  (1, 'one', 1.50, '1969-12-31', '1969-12-31 23:59:59.999999', true, '\\x00ff', 9007199254740993, 0.1),
  (2, NULL, -12345678.99, NULL, NULL, NULL, NULL, NULL, NULL)
"""
STREAM = (
    "INSERT INTO items VALUES (3, 'drei äß', 0, '2024-02-29', '2024-02-29 12:00:00', false, '', -1, 1e300)",
    "UPDATE items SET name = 'zwei', price = NULL WHERE id = 2",
    "DELETE FROM items WHERE id = 1",
    "UPDATE items SET id = 30 WHERE id = 3",
)
# Two snapshot rows, insert, update, delete and tombstone, then delete, tombstone and insert.
MESSAGES = 2 + 1 + 1 + 2 + 3


def test_a_real_engine(
    spark: SparkSession, kafka: KafkaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        Postgres(tmp_path, wal_level="logical") as postgres,
        psycopg.connect(postgres.url.replace("+psycopg", ""), autocommit=True) as database,
    ):
        topics, tables = [f"{PREFIX}.*"], [{"table": "public.items"}]
        feed = message_feed("real", "debezium", kafka, topics, monkeypatch, tables=tables)
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result()
        database.execute(CREATE)
        database.execute(SNAPSHOT)
        count = _counter(feed)
        with _engine(postgres, kafka, tmp_path) as engine:
            _wait(lambda: count() >= 2, engine)
            for statement in STREAM:
                database.execute(statement)
            _wait(lambda: count() >= MESSAGES, engine)
        run(spark, feed, window())
        cursor = database.execute("SELECT * FROM items ORDER BY id")
        assert cursor.description is not None
        truth = [dict(zip([d.name for d in cursor.description], row, strict=True)) for row in cursor]
    current = sorted(stored_rows(f"lake.{feed.feed}.public_items"), key=lambda row: row["id"])
    assert [{n: row[n] for n in truth[0]} for row in current] == truth
    assert not stored_rows(feed.lake.quarantine)
    ledger = stored_rows(f"lake.{feed.feed}.public_items_changes")
    operations = sorted(row["operation"] for row in ledger)
    assert operations == ["delete", "insert", "snapshot", "snapshot", "update", "update"]
    moved = next(row for row in ledger if row["previous_key"])
    assert (moved["previous_key"]["id"], moved["key"]["id"]) == (3, 30)
    deleted = next(row for row in ledger if row["operation"] == "delete")
    assert deleted["before_unknown_columns"]["name"] == "unavailable", (
        "the default replica identity sends the key alone"
    )


def _counter(feed: Feed) -> Callable[[], int]:
    kafka = Kafka(feed.connection, Connection.named(feed.connection))
    return lambda: kafka.latest([TOPIC])[TOPIC]["0"]


def _wait(until: Callable[[], bool], engine: subprocess.Popen[Any]) -> None:
    end = time.monotonic() + 90
    while not until():
        assert engine.poll() is None, "the engine ended"
        assert time.monotonic() < end, "the engine is silent"
        time.sleep(0.2)


@contextmanager
def _engine(postgres: Postgres, kafka: KafkaBroker, home: Path) -> Iterator[subprocess.Popen[Any]]:
    place = postgres.connection
    settings = {
        "name": "engine",
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "offset.storage": "org.apache.kafka.connect.storage.MemoryOffsetBackingStore",
        "offset.flush.interval.ms": "1000",
        "plugin.name": "pgoutput",
        "publication.autocreate.mode": "filtered",
        "table.include.list": "public.items",
        "topic.prefix": PREFIX,
        "database.hostname": place["host"],
        "database.port": place["port"],
        "database.user": place["login"],
        "database.password": place["password"],
        "database.dbname": place["schema"],
    }
    file = home / "engine.properties"
    file.write_text("\n".join(f"{name}={value}" for name, value in settings.items()), "utf-8")
    jars, source = PROJECT / ".jars" / "debezium" / "*", Path(__file__).with_name("Engine.java")
    with (home / "engine.log").open("wb") as log:
        engine = subprocess.Popen(
            [java(), *QUICK, "-cp", str(jars), str(source), str(file), kafka.bootstrap],
            stdout=log, stderr=log,
        )  # fmt: skip
        try:
            yield engine
        finally:
            engine.terminate()
            engine.wait(30)
