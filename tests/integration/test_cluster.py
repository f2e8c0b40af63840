"""The stages on a cluster: workers without the project carry the rows, and one of them is lost meanwhile."""

from __future__ import annotations

import subprocess
import time
import urllib.error
from collections.abc import Callable
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from psutil import NoSuchProcess, Process
from pyspark.sql import SparkSession

from changeledger.config.settings import Settings
from changeledger.model.table_names import TableNames
from changeledger.model.window import Window
from sourcelab import sqlserver_cdc
from sourcelab.airflow_home import AirflowHome, DagTest
from sourcelab.log import Log, simulate
from sourcelab.process import free_port
from sourcelab.services import Postgres
from sourcelab.standalone import Master, Worker, asked, authenticated, python_of_workers
from sourcelab.tables import ORDERS
from tests.integration.line import cdc_feed, run
from tests.lake_states import session_of

pytestmark = pytest.mark.integration

FEED, TABLE = "shop_cdc", ORDERS.full_name
SECONDS = 600
OVER = Window(start=datetime(2024, 1, 1, tzinfo=UTC), end=datetime(2025, 1, 1, tzinfo=UTC))
SECRET = "for-programs-of-one-cluster"
_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@pytest.fixture(scope="module")
def log() -> Log:
    return simulate(seed=7, transactions=1_500)


@pytest.fixture(scope="module")
def source(log: Log, new_database: Callable[[], Postgres]) -> Postgres:
    postgres = new_database()
    sqlserver_cdc.load(postgres.url, log)
    return postgres


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The workers' Python."""
    python = python_of_workers(tmp_path_factory.mktemp("python"))
    command = [str(python), "-c", "import pyarrow, pyspark, changeledger"]
    ended = subprocess.run(command, env={}, cwd="/", capture_output=True, text=True, check=False)
    assert "No module named 'changeledger'" in ended.stderr, ended.stderr
    return python


class Installation:
    """A lake of its own with the feed, and an Airflow that submits its DAG to the cluster at `host`."""

    def __init__(self, home: Path, host: str, source: Postgres, patch: pytest.MonkeyPatch) -> None:
        feeds, conf = home / "feeds", home / "conf"
        for folder in (feeds, conf):
            folder.mkdir(parents=True)
        reported = {
            "feed": FEED,
            "dialect": "sqlserver_cdc",
            "database": "shop",
            "connection": "shop_sqlserver",
        }
        (feeds / f"{FEED}.yaml").write_text(
            yaml.safe_dump({**reported, "source": {}, "tables": [{"table": TABLE}]})
        )
        patch.setenv("CHANGELEDGER_HOME", str(home / "lake"))
        patch.setenv("CHANGELEDGER_FEEDS", str(feeds))
        self.settings = Settings()
        self.ui = free_port()
        # As an installation does it: not the test's own settings, but those of Airflow's machine.
        (conf / "spark-defaults.conf").write_text(
            "spark.driver.host 127.0.0.1\nspark.driver.bindAddress 127.0.0.1\nspark.executor.memory 768m\n"
            f"spark.sql.shuffle.partitions 4\nspark.ui.port {self.ui}\n{authenticated(SECRET)}"
            # Each stage has a driver and two executors of its own, which end before a thorough compiler pays.
            f"spark.driver.extraJavaOptions {_QUICK}\nspark.executor.extraJavaOptions {_QUICK}\n"
        )
        self.airflow = AirflowHome(home)
        self.airflow.environment["SPARK_CONF_DIR"] = str(conf)
        self.airflow.connect(
            {"shop_sqlserver": source.connection, "changeledger_spark": {"conn_type": "spark", "host": host}}
        )
        self.airflow.forbid_retries()

    def begin(self) -> DagTest:
        with self.airflow.migrate() as migration:
            migration.wait()
        return self.airflow.test_dag(FEED, "feeds.py", OVER)

    def executors(self) -> dict[tuple[str, str], int]:
        """The executors that its Spark has now, as `Worker.executors`: how many tasks each runs."""
        url = f"http://127.0.0.1:{self.ui}/api/v1/applications"
        try:
            return {
                (app["id"], executor["id"]): executor["activeTasks"]
                for app in asked(url)
                for executor in asked(f"{url}/{app['id']}/executors")
                if executor["isActive"]
            }
        except (urllib.error.URLError, TimeoutError, ConnectionError, ValueError):
            return {}


def in_mid_stage(installation: Installation, run: DagTest, worker: Worker, other: Worker) -> None:
    """Returns when an executor of normalize on the worker has a task.

    Until then those on the other one stand still before the driver knows them: they could do all of the work.
    """
    held: dict[tuple[str, str], Process] = {}
    deadline = time.monotonic() + SECONDS
    try:
        while time.monotonic() < deadline and run.running:
            if [line.split()[1] for line in run.done] == ["extract"]:
                tasks = installation.executors()
                hold(held, {ids: one for ids, one in other.executors().items() if ids not in tasks})
                if any(tasks.get(ids) for ids in worker.executors()):
                    return
            time.sleep(0.05)
    finally:
        for process in held.values():
            with suppress(NoSuchProcess):
                process.resume()
    raise AssertionError(f"no task of normalize was ever seen on the worker: {run.done} {run.failure}")


def hold(held: dict[tuple[str, str], Process], running: dict[tuple[str, str], Process]) -> None:
    for ids in running.keys() - held.keys():
        with suppress(NoSuchProcess):
            running[ids].suspend()
            held[ids] = running[ids]


def published(session: SparkSession) -> dict[str, list[str]]:
    """All rows of the published tables."""
    return {
        kind: sorted(repr(row.asDict(recursive=True)) for row in session.table(name).collect())
        for kind, name in TableNames.of(FEED, TABLE)._asdict().items()
    }


def finished(run: DagTest) -> None:
    deadline = time.monotonic() + SECONDS
    while run.running and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not run.running, run.done
    assert not run.failed, run.failure
    assert [line.split()[1] for line in run.done] == ["extract", "normalize", "reconcile", "audit", "publish"]


@pytest.mark.timeout(2 * SECONDS)
def test_a_worker_that_is_lost_changes_nothing(
    spark: SparkSession,
    source: Postgres,
    python: Path,
    log: Log,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CHANGELEDGER_HOME", str(tmp_path / "here"))
    here = session_of(spark, Settings())
    tables = [{"table": TABLE}]
    run(here, cdc_feed(FEED, source, monkeypatch, tables=tables), OVER)
    expected = published(here)
    with ExitStack() as stack:
        master = stack.enter_context(Master(tmp_path, "master", python, SECRET))
        lost, other = (
            stack.enter_context(Worker(tmp_path, name, python, master)) for name in ("lost", "other")
        )
        there = Installation(tmp_path / "there", master.url, source, monkeypatch)
        with there.begin() as on_cluster:
            in_mid_stage(there, on_cluster, lost, other)
            lost.lose_power()
            finished(on_cluster)
        assert sorted(master.workers()) == ["ALIVE", "DEAD"]
    found = published(session_of(spark, there.settings))
    assert found == expected
    assert len(found["current"]) == len(log.final_rows(ORDERS))
