"""A lake with Iceberg's REST catalog and its files on S3: every stage, read, upkeep and rollback."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.expressions import AlwaysTrue
from pyspark.sql import SparkSession

import changeledger
from changeledger.config.object_path import ObjectPath
from changeledger.config.settings import Settings
from changeledger.control import Asked, ControlStore
from changeledger.lake import catalog
from changeledger.lake.file_scans import Scan
from changeledger.lake.file_writes import Writing
from changeledger.model.errors import ConfigError, SourceUnavailable
from changeledger.spark.failures import named
from changeledger.stages import maintain
from changeledger.stages.maintenance.rolling_back import roll_back
from sourcelab import sqlserver_cdc
from sourcelab.log import simulate
from sourcelab.object_store import BUCKET, RestCatalog, S3Server
from sourcelab.services import Postgres
from tests.conftest import JARS
from tests.integration.line import cdc_feed, run, window
from tests.lake_states import session_of

pytestmark = pytest.mark.integration

TABLE = "dbo.customers"


@pytest.fixture(params=[False, True], ids=["own credentials", "vended credentials"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RestCatalog]:
    vending: bool = request.param
    with (
        S3Server(JARS.parent, tmp_path) as store,
        RestCatalog(JARS.parent, tmp_path, store, vending=vending) as server,
    ):
        yield server


def ids(feed: str, release: int | None = None) -> list[Any]:
    return sorted(changeledger.read(feed, TABLE, release=release).column("id").to_pylist())


def test_two_windows(
    spark: SparkSession,
    lake: RestCatalog,
    postgres: Postgres,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CHANGELEDGER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CHANGELEDGER_CATALOG", json.dumps(lake.settings))
    # The catalog hands out credentials for tables, not for pages.
    if not lake.vending:
        monkeypatch.setenv("CHANGELEDGER_PAGES", f"s3://{BUCKET}/pages")
    log, session = simulate(5, 24), session_of(spark, Settings())
    table = log.table(TABLE)
    retention: dict[str, Any] = {"tables": [{"table": TABLE}], "retention": timedelta(days=400)}
    feed = cdc_feed("remote", postgres, monkeypatch, **retention)
    sqlserver_cdc.load(postgres.url, log, to_tx=12)
    run(session, feed, over := window())
    first = ids("remote")
    audited = Settings().data_docs / "remote" / over.id / "audit.html"
    assert "Great Expectations" in audited.read_text("utf-8")
    assert isinstance(audited, ObjectPath) != lake.vending
    sqlserver_cdc.append(postgres.url, log, 12, 24)
    run(session, feed, window())
    assert ids("remote") == sorted(key[0] for key in log.final_rows(table)) != first

    maintain.run(session, feed, "test")
    assert ids("remote") == sorted(key[0] for key in log.final_rows(table))
    by_spark = session.table("lake.remote.dbo_customers").select("id").collect()
    assert sorted(row[0] for row in by_spark) == ids("remote")

    control = ControlStore(Settings().control_url)
    earlier = control.releases("remote")[0].id
    roll_back(session, feed, earlier, Asked("the source was restored", "ann"))
    assert ids("remote") == first == ids("remote", earlier)
    kinds = {".parquet"} if lake.vending else {".parquet", ".html", ".json", ".css"}
    local = [file for file in (tmp_path / "home").rglob("*") if file.suffix in kinds]
    assert not local, "files of the lake or pages on this disk"
    _workers_know_the_store_alone(lake)
    _lost(lake)


def _workers_know_the_store_alone(lake: RestCatalog) -> None:
    table = catalog.load("lake.remote.dbo_customers")
    schema = table.schema().as_arrow()
    for io in (Writing.into(table).io, Scan.of(table, AlwaysTrue(), schema).io):
        assert io.properties["s3.secret-access-key"] == lake.store.secret
        assert not {"token", "uri", "credential", "auth.manager"} & io.properties.keys()


def _lost(lake: RestCatalog) -> None:
    """What the errors of a lost server are called."""
    # Loaded before: Iceberg's server tries for two minutes to read a table's metadata.
    table = catalog.load("lake.remote.dbo_customers")
    lake.store.__exit__(None, None, None)
    with pytest.raises(SourceUnavailable, match="the lake's store does not answer"), named():
        table.scan().to_arrow()
    lake.__exit__(None, None, None)
    with pytest.raises(SourceUnavailable, match="the lake's catalog does not answer"), named():
        catalog.load("lake.remote.dbo_customers")


def test_a_wrong_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with S3Server(JARS.parent, tmp_path) as store, RestCatalog(JARS.parent, tmp_path, store) as server:
        monkeypatch.setenv("CHANGELEDGER_CATALOG", json.dumps({**server.settings, "token": "other"}))
        with pytest.raises(ConfigError, match="refuses the credentials"), named():
            catalog.exists("lake.remote.dbo_customers")


@pytest.mark.parametrize("database", ["SQLite", "PostgreSQL"])
def test_a_sql_catalog_with_files_on_s3(
    spark: SparkSession,
    postgres: Postgres,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    database: str,
) -> None:
    """Python writes, Spark reads and writes, Python reads."""
    uri = f"sqlite:///{tmp_path}/catalog.db" if database == "SQLite" else postgres.url
    with S3Server(JARS.parent, tmp_path) as store:
        members = {"type": "sql", "uri": uri, "warehouse": f"s3://{BUCKET}/warehouse", **store.members}
        monkeypatch.setenv("CHANGELEDGER_CATALOG", json.dumps(members))
        session = session_of(spark, Settings())
        catalog.create_namespace("remote")
        created = catalog._catalog().create_table("remote.t", pa.schema([("id", pa.int64())]))
        created.append(pa.table({"id": [1]}))
        session.sql("INSERT INTO lake.remote.t SELECT id + 1 FROM lake.remote.t")
        table = catalog.load("lake.remote.t")
        assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [1, 2]
        assert table.metadata_location.startswith(f"s3://{BUCKET}/warehouse/remote/t/")
