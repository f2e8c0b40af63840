"""The stages on a cluster: workers without the project carry the rows, and one of them is lost meanwhile."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from pyspark.sql import SparkSession

from changeledger.config.settings import PROJECT, Settings
from changeledger.model.table_names import TableNames
from changeledger.model.window import Window
from changeledger.spark.session import SMALL_DATA, as_properties, jars
from sourcelab import sqlserver_cdc
from sourcelab.children import Child
from sourcelab.log import Log, simulate
from sourcelab.services import Postgres
from sourcelab.standalone import Master, Worker, authenticated, python_of_workers
from sourcelab.tables import ORDERS
from tests.integration.line import cdc_feed, run
from tests.lake_states import session_of

pytestmark = pytest.mark.integration

FEED, TABLE = "shop_cdc", ORDERS.full_name
SECONDS = 600
OVER = Window(start=datetime(2024, 1, 1, tzinfo=UTC), end=datetime(2025, 1, 1, tzinfo=UTC))
SECRET = "for-programs-of-one-cluster"
_TASK = re.compile(r"(Starting|Finished) task \S+ in stage \S+ \(TID (\d+)\)(?: \(\S+,\s*executor (\d+))?")
_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@pytest.fixture(scope="module")
def log() -> Log:
    return simulate(seed=7, transactions=300)


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


# All stages in one application: its executors start once.
DRIVER = """
import sys
from datetime import datetime
from pathlib import Path
from changeledger.config.files import named_feed
from changeledger.config.settings import Settings
from changeledger.model.window import Window
from changeledger.spark.session import spark_session
from tests.integration.line import STAGES

start, end = map(datetime.fromisoformat, sys.argv[2:4])
feed, window = named_feed(Settings().feeds, sys.argv[1]), Window(start=start, end=end)
spark = spark_session(feed.feed)
for stage in STAGES:
    stage.run(spark, feed, window)
    with Path(sys.argv[4]).open("a") as done:
        print(stage.__name__.rpartition(".")[2], file=done)
"""


class Submitted(Child):
    """A lake of its own with the feed, whose stages are submitted to the cluster at `master`."""

    def __init__(self, home: Path, master: str, source: Postgres, patch: pytest.MonkeyPatch) -> None:
        feeds, conf, driver = home / "feeds", home / "conf", home / "driver.py"
        for folder in (feeds, conf):
            folder.mkdir(parents=True)
        driver.write_text(DRIVER)
        self._done = home / "done"
        self._done.touch()
        reported = {"feed": FEED, "dialect": "sqlserver_cdc", "database": "shop", "connection": FEED}
        (feeds / f"{FEED}.yaml").write_text(
            yaml.safe_dump({**reported, "source": {}, "tables": [{"table": TABLE}]})
        )
        patch.setenv("CHANGELEDGER_HOME", str(home / "lake"))
        patch.setenv("CHANGELEDGER_FEEDS", str(feeds))
        patch.setenv(f"AIRFLOW_CONN_{FEED.upper()}", json.dumps(source.connection))
        self.settings = Settings()
        # As an installation does it: not the test's own settings, but those of the machine that submits.
        (conf / "spark-defaults.conf").write_text(
            "spark.driver.host 127.0.0.1\nspark.driver.bindAddress 127.0.0.1\nspark.executor.memory 768m\n"
            f"spark.ui.enabled false\n{authenticated(SECRET)}"
            # Driver and executors end before a thorough compiler pays.
            f"spark.driver.extraJavaOptions {_QUICK}\nspark.executor.extraJavaOptions {_QUICK}\n"
            f"{as_properties(SMALL_DATA)}"
        )
        command = [
            str(Path(sys.executable).with_name("spark-submit")), "--master", master,
            "--jars", ",".join(jars(self.settings)), str(driver),
            FEED, OVER.start.isoformat(), OVER.end.isoformat(), str(self._done),
        ]  # fmt: skip
        python = {"PYTHONPATH": f"{PROJECT}/include:{PROJECT}", "PYSPARK_DRIVER_PYTHON": sys.executable}
        environment = {**os.environ, **python, "SPARK_CONF_DIR": str(conf)}
        super().__init__("spark-submit", command, environment, home / "driver.log")

    @property
    def done(self) -> list[str]:
        """The stages that have ended: in a file, for spark-submit tears the lines that it passes on."""
        return self._done.read_text("utf-8").split()

    @property
    def text(self) -> str:
        return self.log.read_text("utf-8", "replace")

    def at_work(self) -> set[str]:
        """The numbers of the executors that have a task, as the driver says."""
        tasks: dict[str, str] = {}
        for what, task, executor in _TASK.findall(self.text):
            tasks[task] = executor if what == "Starting" else ""
        return {*tasks.values()} - {""}


def in_mid_stage(run: Submitted, workers: Sequence[Worker]) -> Worker:
    """The worker whose executor is at a task of normalize. It stands still, so it never ends it."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline and run.running:
        at_work = run.at_work() if run.done == ["extract"] else set()
        for worker in workers if at_work else ():
            for (_, executor), process in worker.executors().items():
                if executor not in at_work:
                    continue
                process.suspend()
                # Until what it has said before is in the log.
                time.sleep(0.3)
                if executor in run.at_work():
                    return worker
                process.resume()
        time.sleep(0.02)
    raise AssertionError(f"no task of normalize was ever seen on a worker: {run.done} {run.failure}")


def published(session: SparkSession) -> dict[str, list[str]]:
    """All rows of the published tables."""
    return {
        kind: sorted(repr(row.asDict(recursive=True)) for row in session.table(name).collect())
        for kind, name in TableNames.of(FEED, TABLE)._asdict().items()
    }


def finished(run: Submitted) -> None:
    deadline = time.monotonic() + SECONDS
    while run.running and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not run.running, run.done
    assert not run.failed, run.failure
    assert run.done == ["extract", "normalize", "reconcile", "audit", "publish"]


@pytest.mark.timeout(2 * SECONDS)
def test_a_worker_that_is_lost_changes_nothing(
    spark: SparkSession,
    source: Postgres,
    python: Path,
    log: Log,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CHANGELEDGER_HOME", str(tmp_path / "local"))
    local = session_of(spark, Settings())
    tables = [{"table": TABLE}]
    run(local, cdc_feed(FEED, source, monkeypatch, tables=tables), OVER)
    expected = published(local)
    with ExitStack() as stack:
        master = stack.enter_context(Master(tmp_path, "master", python, SECRET))
        workers = [stack.enter_context(Worker(tmp_path, name, python, master)) for name in ("one", "other")]
        with Submitted(tmp_path / "cluster", master.url, source, monkeypatch) as submitted:
            in_mid_stage(submitted, workers).lose_power()
            finished(submitted)
        assert re.search(r"Starting task \d+\.1 ", submitted.text), "what it was at has begun again"
        assert sorted(master.workers()) == ["ALIVE", "DEAD"]
    on_cluster = published(session_of(spark, submitted.settings))
    assert on_cluster == expected
    assert len(on_cluster["current"]) == len(log.final_rows(ORDERS))
