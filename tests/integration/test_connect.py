"""One engine, three ways: job scripts attached to a warm Connect server, by spark-submit, and in process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from changeledger.config.files import named_feed
from changeledger.config.settings import PROJECT, Settings
from changeledger.model.table_names import distinct_names
from changeledger.model.window import Window
from changeledger.spark.session import jars, local_conf
from sourcelab import sqlserver_cdc
from sourcelab.connect import SparkConnectServer
from sourcelab.log import Log, simulate
from sourcelab.process import free_port
from sourcelab.services import Postgres
from tests.integration.line import STAGES as MODULES
from tests.integration.line import run
from tests.lake_states import session_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.integration

FEED = "shop_cdc"
TABLES = ("sales.orders",)
OVER = Window(start=datetime(2024, 1, 1, tzinfo=UTC), end=datetime(2025, 1, 1, tzinfo=UTC))
STAGES = ("extract", "normalize", "reconcile", "audit", "publish")
PASSWORD = "not for other eyes"
# Nobody asks it anything.
CATALOG = {"uri": f"postgresql+psycopg://lake:{quote(PASSWORD)}@127.0.0.1:1/lake"}
ON_LINUX = pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="there is no /proc")


@pytest.fixture(scope="module")
def log() -> Log:
    return simulate(seed=3, transactions=15)


@pytest.fixture(scope="module")
def source(log: Log, new_database: Callable[[], Postgres]) -> Postgres:
    postgres = new_database()
    sqlserver_cdc.load(postgres.url, log)
    return postgres


@pytest.fixture(scope="module")
def feeds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one feed."""
    folder = tmp_path_factory.mktemp("feeds")
    reported = {"feed": FEED, "dialect": "sqlserver_cdc", "database": "shop", "connection": "shop_sqlserver"}
    expectations = [
        {"expect_column_values_to_not_be_null": {"column": "region"}},
        {"name": "no_order", "sql": "SELECT * FROM current WHERE order_no IS NULL", "scope": "all"},
    ]
    tables = [{"table": table, "expectations": expectations} for table in TABLES]
    (folder / f"{FEED}.yaml").write_text(json.dumps({**reported, "source": {}, "tables": tables}))
    return folder


def run_jobs(
    stages: Sequence[str], settings: Settings, source: Postgres, command: list[str], **environment: str
) -> None:
    window = ["--start", OVER.start.isoformat(), "--end", OVER.end.isoformat()]
    variables = {
        **os.environ,
        "CHANGELEDGER_HOME": str(settings.home),
        "CHANGELEDGER_FEEDS": str(settings.feeds),
        "AIRFLOW_CONN_SHOP_SQLSERVER": json.dumps(source.connection),
        "PYTHONPATH": str(PROJECT / "include"),
        **environment,
    }
    for stage in stages:
        job = [*command, str(PROJECT / "jobs" / f"{stage}.py"), "--feed", FEED, *window]
        ended = subprocess.run(job, env=variables, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, f"{stage}:\n{ended.stdout[-3000:]}\n{ended.stderr[-3000:]}"


def rows(session: SparkSession, table: str) -> list[str]:
    return sorted(repr(row.asDict(recursive=True)) for row in session.table(table).collect())


def test_all_ways_publish_the_same_tables(
    spark: SparkSession,
    log: Log,
    source: Postgres,
    feeds: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    attached = Settings(home=tmp_path / "attached", feeds=feeds)
    with SparkConnectServer(attached, attached.home) as server:
        assert maps_archived_classes(server)
        run_jobs(STAGES, attached, source, [sys.executable], SPARK_REMOTE=server.remote)
    said = [line for line in server.log.read_text().splitlines() if " INFO " in line]
    assert [line for line in said if "SparkConnectServer" not in line] == [], "155 MB in an hour"
    # A submitted job takes long to start: one of them, whose window goes on here. `test_cluster` submits all.
    monkeypatch.setenv("CHANGELEDGER_HOME", str(tmp_path / "submitted"))
    submitted = Settings(feeds=feeds)
    conf = [f"{k}={v}" for k, v in local_conf(submitted).items() if k != "spark.jars"]
    submit = [
        str(Path(sys.executable).with_name("spark-submit")), "--master", "local[2]",
        "--jars", ",".join(jars(submitted)), *(part for pair in conf for part in ("--conf", pair)),
    ]  # fmt: skip
    run_jobs(STAGES[:1], submitted, source, submit, PYSPARK_DRIVER_PYTHON=sys.executable)
    monkeypatch.setenv("AIRFLOW_CONN_SHOP_SQLSERVER", json.dumps(source.connection))
    one, other = session_of(spark, attached), session_of(spark, submitted)
    run(other, named_feed(feeds, FEED), OVER, MODULES[1:])
    for table, names in distinct_names(FEED, list(TABLES)).items():
        for name in names:
            assert rows(one, name) == rows(other, name), name
        assert len(rows(one, names.current)) == len(log.final_rows(log.table(table)))


def test_a_dead_proxy_does_not_stand_before_this_machine(tmp_path: Path) -> None:
    (tmp_path / "catalog.db").touch()
    settings = Settings(home=tmp_path)
    proxy = f"http://127.0.0.1:{free_port()}"
    names = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    kept = {name: value for name, value in os.environ.items() if name.lower() != "no_proxy"}
    with SparkConnectServer(settings, tmp_path / "server") as server:
        ended = subprocess.run(
            [sys.executable, "-m", "changeledger.cli", "query", "--spark", "--json",
             "SELECT TIMESTAMP '2026-10-25 01:30:00' AS a"],
            env={**kept, **dict.fromkeys(names, proxy), "SPARK_REMOTE": server.remote,
                 # Where the hour is the second of two.
                 "TZ": "Europe/Berlin",
                 "CHANGELEDGER_HOME": str(tmp_path), "PYTHONPATH": str(PROJECT / "include")},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert (ended.stdout, ended.returncode) == ('{"a": "2026-10-25 01:30:00+00:00"}\n', 0), ended.stderr


def maps_archived_classes(server: SparkConnectServer) -> bool:
    properties = str(server.home / "spark.properties").encode()
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if properties in line.read_bytes() and "/classes-" in line.with_name("maps").read_text("utf-8"):
                return True
    return False


def command_lines() -> str:
    """Of all processes that can be seen."""
    found = []
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(line.read_text("utf-8", "replace"))
        except OSError:
            continue
    return "\n".join(found)


@ON_LINUX
def test_the_servers_start_shows_no_password(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, catalog=CATALOG)
    with SparkConnectServer(settings, tmp_path) as server:
        seen = command_lines()
        assert str(server.home / "spark.properties") in seen
        assert PASSWORD not in seen
        assert (server.home / "spark.properties").stat().st_mode & 0o077 == 0
    assert not (server.home / "spark.properties").exists()


_IN_PROCESS = """
from pathlib import Path
from changeledger.spark.session import spark_session
spark = spark_session("test")
print("password:", spark.conf.get("spark.sql.catalog.lake.jdbc.password"))
for line in Path("/proc").glob("[0-9]*/cmdline"):
    try:
        print(line.read_text("utf-8", "replace"))
    except OSError:
        pass
spark.stop()
"""


@ON_LINUX
def test_a_session_of_ones_own_shows_no_password(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "CHANGELEDGER_HOME": str(tmp_path),
        "CHANGELEDGER_CATALOG": json.dumps(CATALOG),
        "PYTHONPATH": str(PROJECT / "include"),
    }
    ended = subprocess.run(
        [sys.executable, "-c", _IN_PROCESS], env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    reported, seen = ended.stdout.split("\n", 1)
    assert reported == f"password: {PASSWORD}"
    assert "spark.sql.catalog.lake.uri" in seen
    assert PASSWORD not in seen


_ATTACHED = """
from changeledger.spark.session import spark_session
spark_session("test")
print("attached", flush=True)
input()
"""


def test_a_process_ends_at_once_though_its_server_is_gone(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    with SparkConnectServer(settings, tmp_path) as server:
        environment = {
            **os.environ, "SPARK_REMOTE": server.remote, "PYTHONPATH": str(PROJECT / "include"),
        }  # fmt: skip
        process = subprocess.Popen(
            [sys.executable, "-c", _ATTACHED],
            env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "attached\n"
    try:
        process.communicate("\n", timeout=30)
    finally:
        process.kill()
    assert process.returncode == 0
