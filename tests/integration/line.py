"""All stages on real services, in one process, for the tests of whole runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from types import ModuleType
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from changeledger.config.feed import Feed
from changeledger.model.window import Window
from changeledger.stages import audit, extract, normalize, publish, reconcile
from sourcelab.messages import Message, produce
from sourcelab.services import KafkaBroker, Postgres

STAGES: tuple[ModuleType, ...] = (extract, normalize, reconcile, audit, publish)
BEGIN = datetime(2020, 1, 1, tzinfo=UTC)
TABLES = ("dbo.customers", "sales.orders", "dbo.parts", "dbo.wide")


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
    return Feed.model_validate(
        {
            "feed": name,
            "dialect": dialect,
            "database": "shop",
            "connection": name,
            "source": source,
            **reported,
        }
    )


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


def lake_name(feed: Feed, table: str, kind: str = "") -> str:
    return f"lake.{feed.feed}.{table.replace('.', '_').lower()}{kind}"


def rows(spark: SparkSession, name: str) -> list[Row]:
    return spark.table(name).collect()


def plain(value: Any) -> Any:
    return bytes(value) if isinstance(value, bytearray) else value
