"""A lake with Iceberg's REST catalog and its files on S3: every stage, reading, upkeep and rollback."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.expressions import AlwaysTrue
from pyspark.sql import SparkSession

import changeledger
from changeledger.config.feed import Feed
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


@pytest.fixture(scope="module")
def servers() -> Iterator[ExitStack]:
    """The servers of all tests; the last test ends them."""
    with ExitStack() as servers:
        yield servers


@pytest.fixture(scope="module")
def store(servers: ExitStack, tmp_path_factory: pytest.TempPathFactory) -> S3Server:
    return servers.enter_context(S3Server(JARS.parent, tmp_path_factory.mktemp("store")))


@pytest.fixture(scope="module")
def lake(servers: ExitStack, store: S3Server, tmp_path_factory: pytest.TempPathFactory) -> RestCatalog:
    return servers.enter_context(RestCatalog(JARS.parent, tmp_path_factory.mktemp("catalog"), store))


def ids(feed: str, release: int | None = None) -> list[Any]:
    return sorted(changeledger.read(feed, TABLE, release=release).column("id").to_pylist())


def installed(
    spark: SparkSession, lake: RestCatalog, folder: Path, patch: pytest.MonkeyPatch
) -> SparkSession:
    patch.setenv("CHANGELEDGER_HOME", str(folder / "home"))
    patch.setenv("CHANGELEDGER_CATALOG", json.dumps(lake.settings))
    # The catalog gives out credentials for tables, but not for pages.
    if not lake.vending:
        patch.setenv("CHANGELEDGER_PAGES", f"s3://{BUCKET}/pages")
    return session_of(spark, Settings())


def feed_of(name: str, postgres: Postgres, patch: pytest.MonkeyPatch) -> Feed:
    return cdc_feed(name, postgres, patch, tables=[{"table": TABLE}], retention=timedelta(days=400))


def require_nothing_here(folder: Path, *kinds: str) -> None:
    local = [file for file in (folder / "home").rglob("*") if file.suffix in kinds]
    assert not local, "files of the lake or pages on this disk"


def workers_know_the_store_alone(lake: RestCatalog, name: str) -> None:
    table = catalog.load(name)
    schema = table.schema().as_arrow()
    for io in (Writing.into(table).io, Scan.of(table, AlwaysTrue(), schema).io):
        assert io.properties["s3.secret-access-key"] == lake.store.secret
        assert not {"token", "uri", "credential", "auth.manager"} & io.properties.keys()


@pytest.mark.long
def test_two_windows(
    spark: SparkSession,
    lake: RestCatalog,
    postgres: Postgres,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session = installed(spark, lake, tmp_path, monkeypatch)
    log = simulate(5, 24)
    in_the_end = sorted(key[0] for key in log.final_rows(log.table(TABLE)))
    feed = feed_of("remote", postgres, monkeypatch)
    sqlserver_cdc.load(postgres.url, log, to_tx=12)
    run(session, feed, over := window())
    first = ids("remote")
    audited = Settings().data_docs / "remote" / over.id / "audit.html"
    assert "Great Expectations" in audited.read_text("utf-8")
    assert isinstance(audited, ObjectPath)
    sqlserver_cdc.append(postgres.url, log, 12, 24)
    run(session, feed, window())
    assert ids("remote") == in_the_end != first

    maintain.run(session, feed, "test")
    assert ids("remote") == in_the_end
    by_spark = session.table("lake.remote.dbo_customers").select("id").collect()
    assert sorted(row[0] for row in by_spark) == in_the_end

    control = ControlStore(Settings().control_url)
    earlier = control.releases.of_feed("remote")[0].id
    roll_back(session, feed, earlier, Asked("the source was restored", "ann"))
    assert ids("remote") == first == ids("remote", earlier)
    require_nothing_here(tmp_path, ".parquet", ".html", ".json", ".css")
    workers_know_the_store_alone(lake, "lake.remote.dbo_customers")


@pytest.mark.long
def test_credentials_that_the_catalog_hands_out(
    spark: SparkSession,
    store: S3Server,
    postgres: Postgres,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every stage, upkeep and reading work with only these credentials."""
    log = simulate(5, 24)
    sqlserver_cdc.load(postgres.url, log)
    with RestCatalog(JARS.parent, tmp_path, store, vending=True) as lake:
        session = installed(spark, lake, tmp_path, monkeypatch)
        feed = feed_of("vended", postgres, monkeypatch)
        run(session, feed, over := window())
        assert not isinstance(Settings().data_docs / "vended" / over.id, ObjectPath)
        maintain.run(session, feed, "test")
        assert ids("vended") == sorted(key[0] for key in log.final_rows(log.table(TABLE)))
        require_nothing_here(tmp_path, ".parquet")
        workers_know_the_store_alone(lake, "lake.vended.dbo_customers")


def test_a_wrong_token(lake: RestCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHANGELEDGER_CATALOG", json.dumps({**lake.settings, "token": "other"}))
    with pytest.raises(ConfigError, match="refuses the credentials"), named():
        catalog.exists("lake.remote.dbo_customers")


@pytest.mark.parametrize("database", ["SQLite", "PostgreSQL"])
def test_a_sql_catalog_with_files_on_s3(
    spark: SparkSession,
    store: S3Server,
    postgres: Postgres,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    database: str,
) -> None:
    """Python writes, Spark reads and writes, Python reads."""
    uri = f"sqlite:///{tmp_path}/catalog.db" if database == "SQLite" else postgres.url
    warehouse = f"s3://{BUCKET}/{database}"
    members = {"type": "sql", "uri": uri, "warehouse": warehouse, **store.members}
    monkeypatch.setenv("CHANGELEDGER_CATALOG", json.dumps(members))
    session = session_of(spark, Settings())
    catalog.create_namespace("remote")
    created = catalog._catalog().create_table("remote.t", pa.schema([("id", pa.int64())]))
    created.append(pa.table({"id": [1]}))
    session.sql("INSERT INTO lake.remote.t SELECT id + 1 FROM lake.remote.t")
    table = catalog.load("lake.remote.t")
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [1, 2]
    assert table.metadata_location.startswith(f"{warehouse}/remote/t/")


def test_servers_that_are_lost(
    servers: ExitStack, store: S3Server, lake: RestCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The errors name the lake's store and catalog."""
    monkeypatch.setenv("CHANGELEDGER_CATALOG", json.dumps(lake.settings))
    catalog.create_namespace("lost")
    # Loaded before, because Iceberg's server tries for two minutes to read a table's metadata.
    table = catalog._catalog().create_table("lost.t", pa.schema([("id", pa.int64())]))
    table.append(pa.table({"id": [1]}))
    store.__exit__(None, None, None)
    with pytest.raises(SourceUnavailable, match="the lake's store does not answer"), named():
        table.scan().to_arrow()
    servers.close()
    with pytest.raises(SourceUnavailable, match="the lake's catalog does not answer"), named():
        catalog.load("lake.lost.t")
