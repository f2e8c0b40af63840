"""Catalog and control store on PostgreSQL, only by configuration: two processes see one lake."""

from __future__ import annotations

import json
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession

from changeledger.config.settings import Settings
from changeledger.control import ControlStore
from changeledger.control.database import engine_for
from changeledger.model.errors import SourceUnavailable
from sourcelab import sqlserver_cdc
from sourcelab.log import simulate
from sourcelab.postgres import plain_url
from sourcelab.services import Postgres
from tests.integration.line import cdc_feed, python, run, window
from tests.lake_states import session_of

pytestmark = pytest.mark.integration

TABLE = "dbo.customers"


def test_a_control_store_that_can_only_be_read(postgres: Postgres) -> None:
    """As on a server that fails over to its replica: renewing a lease is retried."""
    ControlStore(postgres.url).leases.acquire("shop", "me", 60)
    with psycopg.connect(plain_url(postgres.url), autocommit=True) as session:
        session.execute(f"ALTER DATABASE {postgres.database} SET default_transaction_read_only = on")
    engine_for(postgres.url).dispose()
    with pytest.raises(SourceUnavailable, match="read-only transaction"):
        ControlStore(postgres.url).leases.renew("shop", 60)


@pytest.mark.long
def test_a_line_on_postgresql(
    spark: SparkSession, postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = simulate(9, 12)
    sqlserver_cdc.load(postgres.url, log)
    monkeypatch.setenv("CHANGELEDGER_HOME", str(tmp_path))
    monkeypatch.setenv("CHANGELEDGER_CONTROL_URL", postgres.url)
    monkeypatch.setenv("CHANGELEDGER_CATALOG", json.dumps({"uri": postgres.url}))
    feed = cdc_feed("shared", postgres, monkeypatch, tables=[{"table": TABLE}])
    run(session_of(spark, Settings()), feed, window())
    query = "SELECT id FROM lake.shared.dbo_customers"
    asked = python("-m", "changeledger.cli", "query", "--json", query)
    assert postgres.password not in asked.stdout + asked.stderr
    with psycopg.connect(plain_url(postgres.url)) as session:
        released = session.execute("SELECT status FROM releases").fetchall()
        tables = session.execute("SELECT count(*) FROM iceberg_tables").fetchone()
    assert released == [("completed",)]
    assert tables is not None
    assert tables[0] >= 5
    read = {json.loads(line)["id"] for line in asked.stdout.splitlines()}
    assert read == {key[0] for key in log.final_rows(log.table(TABLE))}
    assert not list(tmp_path.glob("*.db")), "no embedded store beside"
