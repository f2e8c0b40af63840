"""Computed columns: no capture has their values, so none is published, and that is no error."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from changeledger.config.database import FRESH, Database
from changeledger.lake import catalog
from changeledger.stages import compare, verify
from sourcelab import base_tables, debezium, qlik_tables, sqlserver_cdc
from sourcelab.computed import NAME, with_computed
from sourcelab.log import simulate
from sourcelab.messages import produce
from sourcelab.services import KafkaBroker, Postgres
from tests.integration.line import (
    KEYS,
    cdc_feed,
    current_rows,
    debezium_feed,
    lake_name,
    qlik_tables_feed,
    run,
    window,
    write_feeds,
)
from tests.stored_rows import stored_rows

pytestmark = [pytest.mark.integration, pytest.mark.long]

TABLE = "sales.orders"


def test_a_computed_column_is_not_captured(
    spark: SparkSession,
    kafka: KafkaBroker,
    tmp_path: Path,
    postgres: Postgres,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """SQL Server states that the column is computed.

    Debezium's feed knows it from SQL Server's feed, and Qlik's feed from its own file. A column in that file
    that the table does not have is reported.
    """
    log = with_computed(simulate(6, 24), TABLE)
    table = log.table(TABLE)
    columns = [{"name": name, "computed": True} for name in (NAME.upper(), "totl")]
    stated = {"table": TABLE, "key": KEYS[TABLE], "columns": columns}
    feeds = [
        cdc_feed("computed_cdc", postgres, monkeypatch, tables=[{"table": TABLE}]),
        qlik_tables_feed("computed_qlik", postgres, monkeypatch, tables=[stated]),
        debezium_feed("computed_dbz", kafka, "computed", monkeypatch, tables=[{"table": TABLE}]),
    ]
    write_feeds(tmp_path / "feeds", monkeypatch, *feeds)
    # The second window of SQL Server's own feed continues from what is published.
    for source in (base_tables, sqlserver_cdc):
        source.load(postgres.url, log, 12)
    run(spark, feeds[0], window())
    for source in (base_tables, sqlserver_cdc):
        source.append(postgres.url, log, 12, len(log.transactions))
    qlik_tables.load(postgres.url, log)
    reported = debezium.messages(log, schemas=True, snapshot=True, prefix="computed")
    produce(kafka.bootstrap, [m for m in reported if m.topic.endswith(TABLE)], partitions=1)
    over = window()
    with caplog.at_level(logging.WARNING, "changeledger"):
        for feed in feeds:
            run(spark, feed, over)
    unknown = "computed_qlik: sales.orders: `columns:` names a column that the table does not have: totl"
    assert f"{unknown}, did you mean total?" in caplog.text
    assert caplog.text.count("`columns:` names") == 1
    known = {feed.feed: feed for feed in feeds}
    proved = verify.run(spark, Database(database="shop"), known, FRESH)
    compared = compare.run(spark, Database(database="shop", reference="computed_cdc"), known)
    for feed in feeds:
        truth = {key: table.captured(row) for key, row in log.final_rows(table).items()}
        assert current_rows(feed, table) == truth, feed.feed
        alive = stored_rows(lake_name(feed, TABLE))
        assert all(row["_unknown_columns"] == {NAME: "not_captured"} for row in alive), feed.feed
        history = stored_rows(lake_name(feed, TABLE, "_history"))
        assert {row[NAME] for row in history} == {None}, feed.feed
        assert not catalog.exists(feed.lake.image_chain_breaks), feed.feed
    by_source = {row.feed: row for row in proved if row.against == "source"}
    assert {name: row.outcome for name, row in by_source.items()} == dict.fromkeys(known, "proven")
    assert {row.counts["unknown"] for row in by_source.values()} <= {0}
    assert {row.outcome for row in compared} == {"agree"}
    assert all(row.counts["equal"] > 0 for row in compared)
