"""Spark Connect: every job attaches to one server, and publishes the same as without it.

The tests share the server, whose workers have the package. The last test ends it. In test_own_airflow, jobs
send their package to Spark's own server.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import psycopg
import pytest

from changeledger import exit_codes
from changeledger.config.files import named_feed
from changeledger.config.settings import PROJECT, Settings
from changeledger.control import ControlStore
from changeledger.model.errors import SparkUnavailable
from changeledger.model.table_names import TableNames
from changeledger.model.window import Request, Window
from changeledger.spark.remote import require_answer
from sourcelab import base_tables, qlik_tables, sqlserver_cdc
from sourcelab.log import Log, simulate
from sourcelab.postgres import plain_url
from sourcelab.process import free_port
from sourcelab.services import Postgres
from sourcelab.shared_workers import SharedWorkers
from sourcelab.tables import ORDERS
from tests.certificates import Authority
from tests.integration.attached import Attached
from tests.integration.line import BEGIN, STAGES, python, rows, run
from tests.integration.token_proxy import TokenProxy
from tests.lake_states import session_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.integration, pytest.mark.long]

TABLE = ORDERS.full_name
CDC, QLIK = "shop_cdc", "shop_qlik"
EXPECTATIONS = [
    {"expect_column_values_to_not_be_null": {"column": "region"}},
    {"name": "no_order", "sql": "SELECT * FROM current WHERE order_no IS NULL", "scope": "all"},
]
PASSWORD = "not for other eyes"
# Nothing connects to this catalog.
CATALOG = {"uri": f"postgresql+psycopg://lake:{quote(PASSWORD)}@127.0.0.1:1/lake"}
# Names the file of authorities that gRPC trusts.
TRUSTED = "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"
ON_LINUX = pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="there is no /proc")


@pytest.fixture(scope="module")
def log() -> Log:
    return simulate(23, 25, datetime.now(UTC).replace(microsecond=0) - timedelta(hours=2))


@pytest.fixture(scope="module")
def source(log: Log, new_database: Callable[[], Postgres]) -> Postgres:
    """In Qlik's change table, the row of one insert has another value."""
    postgres = new_database()
    sqlserver_cdc.load(postgres.url, log)
    qlik_tables.load(postgres.url, log)
    base_tables.load(postgres.url, log)
    with psycopg.connect(plain_url(postgres.url)) as session:
        changed = session.execute(
            'UPDATE sales."orders__ct" SET weight = 4711 WHERE header__change_seq = '
            "(SELECT max(header__change_seq) FROM sales.\"orders__ct\" WHERE header__change_oper = 'I')"
        )
        assert changed.rowcount == 1
    return postgres


def describe(settings: Settings, feed: str, dialect: str, **members: Any) -> None:
    tables = [{"table": TABLE, "key": [*ORDERS.key], "expectations": EXPECTATIONS}]
    reported = {"feed": feed, "dialect": dialect, "database": "shop", "connection": "shop", "source": {}}
    (settings.feeds / f"{feed}.yaml").write_text(json.dumps({**reported, "tables": tables, **members}))


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """The settings of an installation whose catalog has a secret that no server checks."""
    folder = tmp_path_factory.mktemp("attached")
    settings = Settings(
        home=folder / "home",
        feeds=folder / "feeds",
        databases=folder / "databases",
        catalog={"token": PASSWORD},
    )
    for subfolder in (settings.feeds, settings.databases):
        subfolder.mkdir()
    database = {"database": "shop", "reference": CDC, "verify": {"grace_period": "PT0S"}}
    (settings.databases / "shop.yaml").write_text(json.dumps(database))
    return settings


@pytest.fixture(scope="module")
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture(scope="module")
def server(settings: Settings, stack: ExitStack) -> SharedWorkers:
    return stack.enter_context(SharedWorkers(settings, settings.home))


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def proxy(server: SharedWorkers, authority: Authority) -> Iterator[TokenProxy]:
    with TokenProxy(server.remote, authority, PASSWORD) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def attached(
    settings: Settings, proxy: TokenProxy, authority: Authority, source: Postgres
) -> Iterator[Attached]:
    """Attached through the proxy: TLS with a private authority, and a token."""
    remote, trusting = proxy.remote(quote(PASSWORD)), {TRUSTED: str(authority.path)}
    with Attached(settings, remote, source.connection, trusting) as process:
        yield process


@pytest.fixture(scope="module")
def over(attached: Attached, settings: Settings) -> Window:
    """The window that Qlik's feed has published over Connect."""
    describe(settings, QLIK, "qlik_tables")
    window = Window(start=BEGIN, end=datetime.now(UTC), request=Request(run="scheduled__1"))
    attached.stages(QLIK, window, run="scheduled__1")
    return window


def command_lines() -> str:
    """Returns the command lines of all visible processes."""
    lines = []
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            lines.append(line.read_text("utf-8", "replace"))
    return "\n".join(lines)


@ON_LINUX
def test_the_servers_start_shows_no_password(server: SharedWorkers) -> None:
    seen, properties = command_lines(), server.home / "spark.properties"
    assert str(properties) in seen
    assert PASSWORD in properties.read_text("utf-8")
    assert PASSWORD not in seen
    assert properties.stat().st_mode & 0o077 == 0
    assert maps_archived_classes(properties)


def maps_archived_classes(properties: Path) -> bool:
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            is_server = str(properties).encode() in line.read_bytes()
            if is_server and "/classes-" in line.with_name("maps").read_text("utf-8"):
                return True
    return False


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
spark.range(2).selectExpr("sum(id)").collect()
spark.stop()
"""


@ON_LINUX
def test_a_session_of_ones_own_shows_no_password(tmp_path: Path) -> None:
    events = tmp_path / "events"
    events.mkdir()
    (tmp_path / "spark-defaults.conf").write_text(
        f"spark.eventLog.enabled true\nspark.eventLog.dir file://{events}\nspark.eventLog.compress false\n"
    )
    variables = {"SPARK_CONF_DIR": str(tmp_path), "CHANGELEDGER_HOME": str(tmp_path)}
    ended = python("-c", _IN_PROCESS, **variables, CHANGELEDGER_CATALOG=json.dumps(CATALOG))
    assert ended.returncode == 0, ended.stderr[-3000:]
    # Before it, the JVM may say that it has no class archive for this class path.
    reported, seen = ended.stdout.partition("password: ")[2].split("\n", 1)
    assert reported == PASSWORD
    assert "spark.sql.catalog.lake.uri" in seen
    assert PASSWORD not in seen
    logged = "".join(file.read_text("utf-8", "replace") for file in events.rglob("events_*"))
    assert "spark.sql.catalog.lake.jdbc.password" in logged
    assert PASSWORD not in logged


def test_all_ways_publish_the_same_tables(
    spark: SparkSession,
    server: SharedWorkers,
    settings: Settings,
    source: Postgres,
    log: Log,
    over: Window,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A window runs attached to the server, and as Airflow submits it; this process completes the latter."""
    reported = [line for line in server.log.read_text().splitlines() if " INFO " in line]
    assert [line for line in reported if "SparkConnectServer" not in line] == [], "155 MB in an hour"
    monkeypatch.setenv("CHANGELEDGER_HOME", str(tmp_path))
    monkeypatch.setenv("CHANGELEDGER_FEEDS", str(settings.feeds))
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", json.dumps(source.connection))
    # A submitted job starts slowly, so only one is submitted. `test_cluster` submits all stages.
    submit("extract", over, tmp_path / "airflow")
    by_connect, by_submit = session_of(spark, settings), session_of(spark, Settings())
    run(by_submit, named_feed(QLIK), over, STAGES[1:])
    names = TableNames.of(QLIK, TABLE)
    for name in names:
        assert sorted(map(repr, rows(by_connect, name))) == sorted(map(repr, rows(by_submit, name))), name
    assert len(rows(by_connect, names.current)) == len(log.final_rows(ORDERS))


# A task's operator, as Airflow's worker runs it.
_TASK = """
import sys
from datetime import datetime
from types import SimpleNamespace
from changeledger.config.files import named_feed
from changeledger.orchestration import feed_dag

feed, stage, run, *interval = sys.argv[1:]
start, end = map(datetime.fromisoformat, interval)
dag_run = SimpleNamespace(
    run_id=run, run_type="scheduled", data_interval_start=start, data_interval_end=end, run_after=end, conf={}
)
task = feed_dag(named_feed(feed)).get_task(stage)
task.execute({"params": {}, "dag_run": dag_run})
"""


def submit(stage: str, over: Window, airflow: Path) -> None:
    """Runs a stage by Airflow's own spark-submit."""
    interval = over.start.isoformat(), over.end.isoformat()
    connection = json.dumps({"conn_type": "spark", "host": "local[2]"})
    variables = {"AIRFLOW_HOME": str(airflow), "AIRFLOW_CONN_CHANGELEDGER_SPARK": connection}
    ended = python("-c", _TASK, QLIK, stage, over.request.run, *interval, **variables)
    assert ended.returncode == 0, f"{ended.stdout[-3000:]}\n{ended.stderr[-3000:]}"


def test_every_job_runs_over_connect(
    attached: Attached, settings: Settings, source: Postgres, log: Log, over: Window
) -> None:
    control = ControlStore(settings.control_url)
    in_the_end = len(log.final_rows(ORDERS))

    # Replay: the feed states a byte order that its masks contradict; then the statement is corrected.
    describe(settings, CDC, "sqlserver_cdc", mask_order="little", quarantine_limit=1)
    attached.stages(CDC)
    refused = attached.rows(f"SELECT count(*) AS n FROM lake.{CDC}.quarantine")
    assert refused[0]["n"] > 0
    describe(settings, CDC, "sqlserver_cdc")
    ended = attached.run("changeledger.cli", "quarantine", "replay", CDC)
    assert ended.code == 0, ended.printed

    # Verify, before the run that reads the records again: a row was changed without a log record.
    with psycopg.connect(plain_url(source.url)) as session:
        (key, *_) = log.final_rows(ORDERS)
        wanted = "region = %s AND order_no = %s"
        changed = session.execute(f"UPDATE sales.orders SET weight = 1234 WHERE {wanted}", key)
        assert changed.rowcount == 1
    verify = ("verify", "--database", "shop")
    assert attached.job(*verify, "--snapshot", "fresh").code == 0
    assert {row.outcome for row in control.proofs.of_database("shop") if row.feed == CDC} == {"waiting"}
    attached.stages(CDC)
    counted = f"SELECT count(*) AS n FROM lake.{CDC}.sales_orders"
    assert attached.rows(counted) == [{"n": in_the_end}]
    ended = attached.job(*verify)
    assert ended.code == exit_codes.FINAL, ended.printed
    (proof,) = [row for row in control.proofs.of_database("shop") if row.feed == CDC]
    assert (proof.outcome, proof.counts["differs"]) == ("drift", 1)

    # Compare, before the repair: Qlik's table differs in one change.
    ended = attached.job("compare", "--database", "shop")
    assert ended.code == exit_codes.FINAL, ended.printed
    assert "FeedsDisagree: shop_qlik sales.orders: 1 differs" in ended.printed, ended.printed
    (row,) = control.comparisons.of_database("shop")
    assert {v: row.counts[v] for v in ("missing", "extra", "differs", "order")} == {
        "missing": 0, "extra": 0, "differs": 1, "order": 0,
    }  # fmt: skip
    (finding,) = attached.rows("SELECT verdict, cells FROM lake.changeledger.findings")
    assert [cell["name"] for cell in finding["cells"]] == ["weight"]

    # Repair.
    attached.stages(CDC, mode="repair", run="repaired")
    (corrected,) = attached.rows(
        f"SELECT weight FROM lake.{CDC}.sales_orders WHERE region = '{key[0]}' AND order_no = {key[1]}"
    )
    assert corrected["weight"] == 1234

    # Maintain does not change what is published.
    ended = attached.job("maintain", "--feed", CDC)
    assert ended.code == 0, ended.printed
    assert attached.rows(counted) == [{"n": in_the_end}]


def test_a_dead_proxy_does_not_stand_before_this_machine(
    server: SharedWorkers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "catalog.db").touch()
    proxy = f"http://127.0.0.1:{free_port()}"
    names = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    # In this zone the hour is the second of two.
    variables = {"TZ": "Europe/Berlin", "SPARK_REMOTE": server.remote, "CHANGELEDGER_HOME": str(tmp_path)}
    ended = python(
        *("-m", "changeledger.cli", "query", "--spark", "--json"),
        "SELECT TIMESTAMP '2026-10-25 01:30:00' AS a",
        **dict.fromkeys(names, proxy),
        **variables,
    )
    assert (ended.stdout, ended.returncode) == ('{"a": "2026-10-25 01:30:00+00:00"}\n', 0), ended.stderr


def test_a_proxy_that_refuses_the_token_or_is_not_trusted(
    proxy: TokenProxy, authority: Authority, tmp_path: Path
) -> None:
    (tmp_path / "catalog.db").touch()
    variables = {"SPARK_REMOTE": proxy.remote("another"), TRUSTED: str(authority.path)}
    command = ("-m", "changeledger.cli", "query", "--spark", "SELECT 1")
    ended = python(*command, CHANGELEDGER_HOME=str(tmp_path), **variables)
    assert proxy.refused, ended.stderr
    assert (
        "the proxy in front of Spark's server refuses the token: status = StatusCode.UNAUTHENTICATED"
        in ended.stderr
    )
    assert "Remedy: correct the password of the feed's Spark connection" in ended.stderr
    # This process trusts only the usual authorities.
    with pytest.raises(SparkUnavailable, match=TRUSTED):
        require_answer(proxy.remote(PASSWORD), 2.0)


_ATTACHED = """
from changeledger.model.errors import ConfigError
from changeledger.spark.session import spark_session
from changeledger.spark.workers import PACKAGE, send_package
spark = spark_session("test")
spark.conf.set(PACKAGE, "of another version")
try:
    send_package(spark)
except ConfigError as error:
    print(error, flush=True)
input()
"""


def test_another_version_is_refused_and_a_process_ends_though_its_server_is_gone(
    server: SharedWorkers, stack: ExitStack
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", _ATTACHED], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env={**os.environ, "SPARK_REMOTE": server.remote, "PYTHONPATH": str(PROJECT / "include")},
    )  # fmt: skip
    assert process.stdout is not None
    assert "was started with another version of changeledger" in process.stdout.readline()
    stack.close()
    assert not (server.home / "spark.properties").exists()
    try:
        process.communicate("\n", timeout=30)
    finally:
        process.kill()
    assert process.returncode == 0
