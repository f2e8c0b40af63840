"""Every job that is run beside the stages, attached to a Spark Connect server: one server, two small feeds.

One process runs the scripts one after the other, since a job's start takes longer than its work here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest

from changeledger import exit_codes
from changeledger.config.settings import PROJECT, Settings
from changeledger.control import ControlStore
from sourcelab import base_tables, qlik_tables, sqlserver_cdc
from sourcelab.connect import SparkConnectServer
from sourcelab.log import Log, simulate
from sourcelab.postgres import plain_url
from sourcelab.services import Postgres
from sourcelab.tables import ORDERS

pytestmark = pytest.mark.integration

TABLE = ORDERS.full_name
STAGES = ("extract", "normalize", "reconcile", "audit", "publish")
CDC, QLIK = "shop_cdc", "shop_qlik"
# Runs what is asked on each line, a JSON list, as `python LIST`; says its code after what it prints.
_RUNNER = """
import gc, json, logging, runpy, sys, traceback
import changeledger.cli.main, changeledger.job
from changeledger.config.files import load_feeds
# Each of them would end this process, too.
changeledger.cli.main.leave = changeledger.job.leave = sys.exit
for line in sys.stdin:
    sys.argv = json.loads(line)
    # As in a process of its own: the command keeps Spark's messages from its answers, feeds are read once.
    logging.disable(logging.NOTSET)
    load_feeds.cache_clear()
    try:
        if sys.argv[0].endswith(".py"):
            runpy.run_path(sys.argv[0], run_name="__main__")
        else:
            runpy.run_module(sys.argv[0], run_name="__main__")
        code = 0
    except SystemExit as end:
        code = end.code or 0
    except BaseException:
        traceback.print_exc(file=sys.stdout)
        code = 1
    # A session that is collected later would end the pool of threads that the next one uses.
    gc.collect()
    print(f"\\nended {code}", flush=True)
"""


class Ended(NamedTuple):
    code: int
    printed: str


class Attached:
    """A process whose jobs attach to the server."""

    def __init__(self, settings: Settings, remote: str, connection: dict[str, Any]) -> None:
        environment = {
            **os.environ,
            "SPARK_REMOTE": remote,
            "CHANGELEDGER_HOME": str(settings.home),
            "CHANGELEDGER_FEEDS": str(settings.feeds),
            "CHANGELEDGER_DATABASES": str(settings.databases),
            "AIRFLOW_CONN_SHOP": json.dumps(connection),
            "PYTHONPATH": str(PROJECT / "include"),
        }
        self._process = subprocess.Popen(
            [sys.executable, "-c", _RUNNER], env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def __enter__(self) -> Attached:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)

    def run(self, *command: str) -> Ended:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        lines = []
        for line in self._process.stdout:
            if line.startswith("ended "):
                return Ended(int(line.split()[1]), "".join(lines))
            lines.append(line)
        raise AssertionError("the process has ended:\n" + "".join(lines[-100:]))

    def job(self, name: str, *arguments: str) -> Ended:
        return self.run(str(PROJECT / "jobs" / f"{name}.py"), *arguments)

    def stages(self, feed: str, **request: str) -> None:
        """One run of the feed, over all there is."""
        window = ["--start", "2020-01-01T00:00:00+00:00", "--end", datetime.now(UTC).isoformat()]
        for stage in STAGES:
            ended = self.job(stage, "--feed", feed, *window, "--request", json.dumps(request))
            assert ended.code == 0, f"{feed} {stage}: {ended.printed[-5000:]}"

    def rows(self, query: str) -> list[dict[str, Any]]:
        ended = self.run("changeledger.cli", "query", "--json", query)
        assert ended.code == 0, ended.printed
        return [json.loads(line) for line in ended.printed.splitlines() if line.startswith("{")]


@pytest.fixture(scope="module")
def log() -> Log:
    return simulate(23, 25, datetime.now(UTC).replace(microsecond=0) - timedelta(hours=2))


@pytest.fixture(scope="module")
def source(log: Log, new_database: Callable[[], Postgres]) -> Postgres:
    postgres = new_database()
    sqlserver_cdc.load(postgres.url, log)
    qlik_tables.load(postgres.url, log)
    base_tables.load(postgres.url, log)
    return postgres


def configured(home: Path) -> Settings:
    settings = Settings(home=home / "home", feeds=home / "feeds", databases=home / "databases")
    for folder in (settings.feeds, settings.databases):
        folder.mkdir(parents=True)
    database = {"database": "shop", "reference": CDC, "verify": {"grace_period": "PT0S"}}
    (settings.databases / "shop.yaml").write_text(json.dumps(database))
    return settings


def describe(settings: Settings, feed: str, dialect: str, **more: Any) -> None:
    tables = [{"table": TABLE, "key": [*ORDERS.key]}]
    reported = {"feed": feed, "dialect": dialect, "database": "shop", "connection": "shop", "source": {}}
    (settings.feeds / f"{feed}.yaml").write_text(json.dumps({**reported, "tables": tables, **more}))


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return configured(tmp_path_factory.mktemp("attached"))


@pytest.fixture(scope="module")
def attached(settings: Settings, source: Postgres) -> Iterator[Attached]:
    with (
        SparkConnectServer(settings, settings.home) as server,
        Attached(settings, server.remote, source.connection) as process,
    ):
        yield process


def changed_in_change_table(source: Postgres) -> None:
    """A value that Qlik's change table has differently, in the row of one insert."""
    with psycopg.connect(plain_url(source.url)) as session:
        changed = session.execute(
            'UPDATE sales."orders__ct" SET weight = 4711 WHERE header__change_seq = '
            "(SELECT max(header__change_seq) FROM sales.\"orders__ct\" WHERE header__change_oper = 'I')"
        )
        assert changed.rowcount == 1


def test_every_job_runs_over_connect(
    attached: Attached, settings: Settings, source: Postgres, log: Log
) -> None:
    control = ControlStore(settings.control_url)
    in_the_end = len(log.final_rows(ORDERS))

    # Replay: the feed states a byte order that its masks contradict; the statement is corrected.
    describe(settings, CDC, "sqlserver_cdc", mask_order="little", quarantine_limit=1)
    attached.stages(CDC)
    refused = attached.rows(f"SELECT count(*) AS n FROM lake.{CDC}.quarantine")
    assert refused[0]["n"] > 0
    describe(settings, CDC, "sqlserver_cdc")
    ended = attached.run("changeledger.cli", "quarantine", "replay", CDC)
    assert ended.code == 0, ended.printed
    attached.stages(CDC, mode="replay", run="replayed")
    counted = f"SELECT count(*) AS n FROM lake.{CDC}.sales_orders"
    assert attached.rows(counted) == [{"n": in_the_end}]

    # Compare: with a difference, and with none.
    changed_in_change_table(source)
    describe(settings, QLIK, "qlik_tables")
    attached.stages(QLIK)
    ended = attached.job("compare", "--database", "shop")
    assert ended.code == exit_codes.FINAL, ended.printed
    assert "FeedsDisagree: shop_qlik sales.orders: 1 differs" in ended.printed, ended.printed
    (row,) = control.comparisons("shop")
    assert {v: row.counts[v] for v in ("missing", "extra", "differs", "order")} == {
        "missing": 0, "extra": 0, "differs": 1, "order": 0,
    }  # fmt: skip
    (found,) = attached.rows("SELECT verdict, cells FROM lake.changeledger.findings")
    assert [cell["name"] for cell in found["cells"]] == ["weight"]

    # Verify and repair: a row that was changed behind the log's back.
    with psycopg.connect(plain_url(source.url)) as session:
        (key, *_) = log.final_rows(ORDERS)
        wanted = "region = %s AND order_no = %s"
        changed = session.execute(f"UPDATE sales.orders SET weight = 1234 WHERE {wanted}", key)
        assert changed.rowcount == 1
    one = ("verify", "--database", "shop")
    assert attached.job(*one, "--snapshot", "fresh").code == 0
    assert {row.outcome for row in control.proofs("shop") if row.feed == CDC} == {"waiting"}
    attached.stages(CDC)
    ended = attached.job(*one)
    assert ended.code == exit_codes.FINAL, ended.printed
    (row,) = [row for row in control.proofs("shop") if row.feed == CDC]
    assert (row.outcome, row.counts["differs"]) == ("drift", 1)
    attached.stages(CDC, mode="repair", run="repaired")
    (corrected,) = attached.rows(
        f"SELECT weight FROM lake.{CDC}.sales_orders WHERE region = '{key[0]}' AND order_no = {key[1]}"
    )
    assert corrected["weight"] == 1234

    # Maintain leaves what is published as it is.
    ended = attached.job("maintain", "--feed", CDC)
    assert ended.code == 0, ended.printed
    assert attached.rows(counted) == [{"n": in_the_end}]
