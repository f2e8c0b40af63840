"""A source or a catalog that is lost in the middle of a stage: the error has a cause and a remedy."""

from __future__ import annotations

import sqlite3
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from changeledger.config.settings import Settings
from changeledger.control import ControlStore
from changeledger.kafka import topics
from changeledger.kafka.messages import Range
from changeledger.lake import new_tables
from changeledger.model.errors import SourceUnavailable
from changeledger.spark import failures
from changeledger.stages import extract
from sourcelab import sqlserver_cdc
from sourcelab.log import simulate
from sourcelab.services import KafkaBroker, Postgres, free_port
from tests.conftest import JARS
from tests.faults.test_sources import TABLE, create, messages, send
from tests.integration.line import cdc_feed, message_feed, window
from tests.kafka.test_messages import scan

pytestmark = pytest.mark.integration


def gone_before(patch: pytest.MonkeyPatch, services: ExitStack) -> None:
    """Ends the services when the stage creates a table of the lake."""
    usual = new_tables.create

    def ended(*reported: Any) -> None:
        services.close()
        usual(*reported)

    patch.setattr(new_tables, "create", ended)


def test_a_broker_that_goes_while_it_is_read(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stage is about to read its messages; another reader is in the middle of them."""
    monkeypatch.setattr(topics, "_STUCK_SECONDS", 2.0)
    with ExitStack() as services:
        broker = services.enter_context(KafkaBroker(JARS.with_name("kafka"), tmp_path))
        create(broker, "gone")
        send(broker, "gone", messages(3))
        feed = message_feed(
            "gone_broker", "debezium", broker, ["gone"], monkeypatch, tables=[{"table": TABLE}]
        )
        message_scan = scan(broker, Range("gone", 0, 0, 9), seconds=3)
        reading = message_scan.rows(message_scan.parts[0])
        next(reading)
        gone_before(monkeypatch, services)
        over = window()
        with pytest.raises(SourceUnavailable, match="the broker no longer answers") as raised:
            extract.run(spark, feed, over)
    assert "'gone_broker'" in raised.value.remedy
    assert "\tat " not in raised.value.message
    # The run's own retry comes before other runs.
    held = ControlStore(Settings().control_url).leases.of_feed(feed.feed)
    assert held is not None
    assert held.holder == over.holder
    with pytest.raises(SourceUnavailable, match="the broker no longer answers: ") as in_the_middle:
        list(reading)
    assert "'here'" in in_the_middle.value.remedy


def test_a_database_that_goes_while_it_is_read(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as services:
        postgres = services.enter_context(Postgres(tmp_path))
        sqlserver_cdc.load(postgres.url, simulate(5, 12))
        feed = cdc_feed("gone_database", postgres, monkeypatch, tables=[{"table": TABLE}])
        gone_before(monkeypatch, services)
        with pytest.raises(SourceUnavailable, match="the source's database no longer answers") as raised:
            extract.run(spark, feed, window())
    assert "'gone_database'" in raised.value.remedy
    assert "\tat " not in raised.value.message


def catalog(spark: SparkSession, name: str, uri: str, folder: Path) -> None:
    for member, value in {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "jdbc",
        ".uri": uri,
        ".jdbc.schema-version": "V1",
        ".warehouse": str(folder),
        ".cache-enabled": "false",
    }.items():
        spark.conf.set(f"spark.sql.catalog.{name}{member}", value)


def test_a_catalog_whose_database_refuses(spark: SparkSession, tmp_path: Path) -> None:
    catalog(spark, "refusing", f"jdbc:postgresql://127.0.0.1:{free_port()}/lake", tmp_path)
    with (
        pytest.raises(SourceUnavailable, match="the lake's catalog cannot be used") as raised,
        failures.named(),
    ):
        spark.sql("CREATE NAMESPACE IF NOT EXISTS refusing.shop")
    assert "CHANGELEDGER_CATALOG" in raised.value.remedy


def test_a_catalog_that_somebody_has_locked(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "catalog.db"
    catalog(spark, "locked", f"jdbc:sqlite:{file}?journal_mode=WAL&busy_timeout=100", tmp_path)
    spark.sql("CREATE NAMESPACE locked.shop")
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    try:
        with (
            pytest.raises(SourceUnavailable, match=r"the lake's catalog cannot be used.*SQLITE_BUSY"),
            failures.named(),
        ):
            spark.sql("CREATE TABLE locked.shop.t (id int) USING iceberg")
    finally:
        other.close()
