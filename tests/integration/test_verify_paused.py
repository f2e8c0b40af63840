"""Feeds that are paused or have never run do not keep the others of their database from being verified."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import SparkSession

from changeledger.config.database import Database
from changeledger.config.settings import Settings
from changeledger.control import ControlStore, ProofRow
from changeledger.reports.proof import verify_and_report
from sourcelab import base_tables, sqlserver_cdc
from sourcelab.log import simulate
from sourcelab.services import Postgres
from sourcelab.tables import CUSTOMERS
from tests.integration.line import cdc_feed, run, window

pytestmark = [pytest.mark.integration, pytest.mark.long]


def test_paused_feeds_do_not_keep_the_source_from_being_read(
    spark: SparkSession, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = simulate(33, 30, datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1))
    tables = [{"table": CUSTOMERS.full_name}]
    feeds = {
        name: cdc_feed(name, postgres, monkeypatch, tables=tables).model_copy(update={"database": "standing"})
        for name in ("goes_on", "paused", "never_ran")
    }
    database = Database.model_validate({"database": "standing", "verify": {"grace_period": timedelta(0)}})

    def last() -> dict[str, ProofRow]:
        verify_and_report(spark, database, feeds)
        proofs = ControlStore(Settings().control_url).proofs.last("standing")
        return {feed: row for feed, (row,) in proofs.items()}

    base_tables.load(postgres.url, log, 20)
    sqlserver_cdc.load(postgres.url, log, 20)
    for name in ("goes_on", "paused"):
        run(spark, feeds[name], window())
    proven = last()
    assert {feed: row.outcome for feed, row in proven.items()} == {"goes_on": "proven", "paused": "proven"}

    base_tables.append(postgres.url, log, 20, 30)
    sqlserver_cdc.append(postgres.url, log, 20, 30)
    run(spark, feeds["goes_on"], window())
    first = last()
    outcomes = {"goes_on": "proven", "paused": "waiting"}
    assert {feed: row.outcome for feed, row in first.items()} == outcomes
    # The source is read again, though a feed waits for the earlier reading.
    second = last()
    assert {feed: row.outcome for feed, row in second.items()} == outcomes
    assert second["goes_on"].until > first["goes_on"].until
    page = database.proofs(Settings()).read_text("utf-8")
    assert "never_ran has not been verified: nothing of it has been released yet" in page
    assert "paused waits" in page
    # The resumed feed is proved by what was read for it: the source is not read.
    run(spark, feeds["paused"], window())
    third = last()
    assert third["paused"].outcome == "proven"
    assert third["paused"].snapshot_id == second["paused"].snapshot_id
    assert third["goes_on"].snapshot_id == second["goes_on"].snapshot_id
