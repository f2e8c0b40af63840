"""All stages on real services, in one process, for the tests of whole runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from pyspark.sql import Row, SparkSession

from changeledger.config.feed import Feed
from changeledger.config.settings import PROJECT
from changeledger.model.window import Window
from changeledger.stages import audit, extract, normalize, publish, reconcile
from sourcelab.log import Log
from sourcelab.messages import Message, produce
from sourcelab.services import KafkaBroker, Postgres
from sourcelab.tables import Key, Table
from tests.feeds import feed_of
from tests.stored_rows import stored_rows

STAGES: tuple[ModuleType, ...] = (extract, normalize, reconcile, audit, publish)
BEGIN = datetime(2020, 1, 1, tzinfo=UTC)
TABLES = ("dbo.customers", "sales.orders", "dbo.parts", "dbo.wide")
OF_THE_RUN = ("_window_id", "window_id", "feed", "source_position", "paired_source_position")
# Qlik's change tables do not contain the tables' keys.
KEYS = {
    "dbo.customers": ["id"],
    "sales.orders": ["region", "order_no"],
    "dbo.parts": ["part_id"],
    "dbo.wide": ["id"],
}


def cdc_feed(name: str, postgres: Postgres, patch: pytest.MonkeyPatch, **settings: Any) -> Feed:
    return _feed(name, "sqlserver_cdc", {}, postgres.connection, patch, settings)


def qlik_tables_feed(name: str, postgres: Postgres, patch: pytest.MonkeyPatch, **settings: Any) -> Feed:
    reported = {"tables": [{"table": table, "key": key} for table, key in KEYS.items()], **settings}
    return _feed(name, "qlik_tables", {}, postgres.connection, patch, reported)


def debezium_feed(
    name: str, kafka: KafkaBroker, prefix: str, patch: pytest.MonkeyPatch, **settings: Any
) -> Feed:
    topics = [f"{prefix}.*", f"__debezium-heartbeat.{prefix}"]
    return message_feed(name, "debezium", kafka, topics, patch, **settings)


def message_feed(
    name: str, dialect: str, kafka: KafkaBroker, topics: list[str], patch: pytest.MonkeyPatch, **settings: Any
) -> Feed:
    connection = {"conn_type": "kafka", "extra": {"bootstrap.servers": kafka.bootstrap}}
    return _feed(name, dialect, {"topics": topics}, connection, patch, settings)


def _feed(
    name: str,
    dialect: str,
    source: Mapping[str, Any],
    connection: Mapping[str, Any],
    patch: pytest.MonkeyPatch,
    settings: Mapping[str, Any],
) -> Feed:
    patch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(connection))
    # Windows have few records, most of them spoilt on purpose.
    reported = {"tables": [{"table": table} for table in TABLES], "quarantine_limit": 1, **settings}
    return feed_of(name, **{"dialect": dialect, "connection": name, "source": source, **reported})


def window(end: datetime | None = None, start: datetime = BEGIN) -> Window:
    return Window(start=start, end=end or datetime.now(UTC))


def run(spark: SparkSession, feed: Feed, over: Window, stages: tuple[ModuleType, ...] = STAGES) -> None:
    for stage in stages:
        stage.run(spark, feed, over)


def carry(
    spark: SparkSession, kafka: KafkaBroker, feed: Feed, part: list[Message], begin: datetime = BEGIN
) -> datetime:
    """Sends the messages and publishes a window with them, from `begin`. Returns the window's end."""
    produce(kafka.bootstrap, part, partitions=1)
    over = window(start=begin)
    run(spark, feed, over)
    return over.end


def without_spark() -> SparkSession:
    """The session of a stage that must not start Spark."""
    raise AssertionError("Spark was started")


def write_feeds(folder: Path, patch: pytest.MonkeyPatch, *feeds: Feed) -> None:
    """Makes `folder` the folder of feeds, and writes their files."""
    folder.mkdir()
    for feed in feeds:
        (folder / f"{feed.feed}.yaml").write_text(yaml.safe_dump(feed.model_dump(mode="json")), "utf-8")
    patch.setenv("CHANGELEDGER_FEEDS", str(folder))


def python(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs Python with the package and further variables, and returns how it ended."""
    environment = {**os.environ, "PYTHONPATH": str(PROJECT / "include"), **variables}
    command = [sys.executable, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def lake_name(feed: Feed, table: str, kind: str = "") -> str:
    return f"lake.{feed.feed}.{table.replace('.', '_').lower()}{kind}"


def current_rows(feed: Feed, table: Table) -> dict[Key, dict[str, Any]]:
    """Returns the rows of a published table by key, as `Log.final_rows` returns those of the source."""
    stored = stored_rows(lake_name(feed, table.full_name))
    return {table.key_of(row): {name: row[name] for name in table.names} for row in stored}


def rows(spark: SparkSession, name: str) -> list[Row]:
    return spark.table(name).collect()


def assert_whole(feed: Feed, log: Log, *tables: str) -> None:
    """Asserts that the current rows of these tables are those at the end of the log."""
    for table in map(log.table, tables):
        assert current_rows(feed, table) == log.final_rows(table), (feed.feed, table.name)


def published(spark: SparkSession, feed: Feed, *tables: str) -> dict[str, list[Any]]:
    """Returns all rows of these tables, without the columns that say which run and feed wrote them."""

    def of_source(row: Row) -> dict[str, Any]:
        return {k: v for k, v in row.asDict(recursive=True).items() if k not in OF_THE_RUN}

    return {
        f"{table}{kind}": sorted(map(of_source, rows(spark, lake_name(feed, table, kind))), key=repr)
        for table in tables
        for kind in ("", "_history", "_changes")
    }
