"""The stages on a cluster whose workers lack the project; in each stage something is lost."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from random import choice

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
from sourcelab.standalone import Master, Worker, python_of_workers
from sourcelab.tables import ORDERS
from sourcelab.yarn import Yarn
from tests.conftest import JARS
from tests.integration.line import cdc_feed, run
from tests.lake_states import session_of

pytestmark = [pytest.mark.integration, pytest.mark.long]

# Publish runs nothing on Spark.
STAGES_WITH_TASKS = ("extract", "normalize", "reconcile", "audit")
FEED, TABLE = "shop_cdc", ORDERS.full_name
SECONDS = 600
OVER = Window(start=datetime(2024, 1, 1, tzinfo=UTC), end=datetime(2025, 1, 1, tzinfo=UTC))
SECRET = "for-programs-of-one-cluster"
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


@pytest.fixture(scope="module")
def expected(
    spark: SparkSession, source: Postgres, log: Log, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[str]]:
    """What this process publishes, without a cluster."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CHANGELEDGER_HOME", str(tmp_path_factory.mktemp("local")))
        local = session_of(spark, Settings())
        run(local, cdc_feed(FEED, source, patch, tables=[{"table": TABLE}]), OVER)
        rows = published(local)
    assert len(rows["current"]) == len(log.final_rows(ORDERS))
    return rows


# All stages run in one application, so its executors start once.
DRIVER = """
import sys
from datetime import datetime
from pathlib import Path
from changeledger.config.files import named_feed
from changeledger.model.window import Window
from changeledger.spark.session import spark_session
from changeledger.stages import audit, extract, normalize, publish, reconcile

start, end = map(datetime.fromisoformat, sys.argv[2:4])
feed, window = named_feed(sys.argv[1]), Window(start=start, end=end)
spark = spark_session(feed.feed)
for stage in (extract, normalize, reconcile, audit, publish):
    stage.run(spark, feed, window)
    with Path(sys.argv[4]).open("a") as done:
        print(stage.__name__.rpartition(".")[2], file=done)
"""


class Submitted(Child):
    """A lake with the feed, whose stages are submitted to the cluster at `master`."""

    def __init__(
        self, home: Path, master: Master | Yarn, source: Postgres, patch: pytest.MonkeyPatch
    ) -> None:
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
        # The settings of the submitting machine, like in an installation, not those of the tests' session.
        (conf / "spark-defaults.conf").write_text(
            "spark.driver.host 127.0.0.1\nspark.driver.bindAddress 127.0.0.1\nspark.executor.memory 768m\n"
            "spark.ui.enabled false\n"
            # Driver and executors end before a thorough JIT compiler pays off.
            f"spark.driver.extraJavaOptions {_QUICK}\nspark.executor.extraJavaOptions {_QUICK}\n"
            f"{as_properties(SMALL_DATA)}{master.defaults}"
        )
        command = [
            str(Path(sys.executable).with_name("spark-submit")), "--master", master.url,
            "--jars", ",".join(jars(self.settings)), str(driver),
            FEED, OVER.start.isoformat(), OVER.end.isoformat(), str(self._done),
        ]  # fmt: skip
        python = {"PYTHONPATH": f"{PROJECT}/include", "PYSPARK_DRIVER_PYTHON": sys.executable}
        environment = {**os.environ, **python, **master.environment, "SPARK_CONF_DIR": str(conf)}
        super().__init__("spark-submit", command, environment, home / "driver.log")

    @property
    def done(self) -> list[str]:
        """The stages that have ended, read from a file, because spark-submit splits lines of output."""
        return self._done.read_text("utf-8").split()

    @property
    def text(self) -> str:
        return self.log.read_text("utf-8", "replace")

    def is_known(self, executor: str) -> bool:
        return f" with ID {executor}," in self.text

    def has_task(self, executor: str, since: int) -> bool:
        """Returns whether the driver has given the executor a task since that place in its log."""
        return re.search(rf"Starting task .*,\s*executor {executor}\b", self.text[since:]) is not None


def lose(run: Submitted, stage: str, what: str, workers: list[Worker]) -> None:
    """Loses an executor, or a worker with its executor, during that stage.

    All executors are suspended from the end of the previous stage, so that the lost one cannot finish its
    task. They are not suspended before the very first task, which takes seconds: Spark assigns no task while
    all are suspended.
    """

    def is_known(worker: Worker) -> bool:
        return any(run.is_known(name) for _, name in worker.executors())

    before = list(STAGES_WITH_TASKS[: STAGES_WITH_TASKS.index(stage)])
    until(lambda: run.done == before or not run.running)
    assert run.done == before, (run.done, run.failure)
    # Before the first task, waits for all executors: it may go to any of them.
    until(lambda: any(map(is_known, workers)) if before else all(map(is_known, workers)))
    still = {
        name: (worker, process)
        for worker in workers
        for (_, name), process in worker.executors().items()
        if run.is_known(name)
    }
    since = len(run.text)
    for _, process in still.values() if before else ():
        process.suspend()
    # The driver waits in vain for a suspended executor if it asks for anything but a task.
    until(lambda: any(run.has_task(name, since) for name in still), 20)
    at_work = next((name for name in still if run.has_task(name, since)), None)
    worker, lost = still.pop(at_work or next(iter(still)))
    print(f"{stage}: {what} lost; {'a' if at_work else 'no'} task was its")
    if what == "worker":
        worker.lose_power()
        workers.remove(worker)
    else:
        lost.kill()
    for _, process in still.values():
        process.resume()


def published(session: SparkSession) -> dict[str, list[str]]:
    """Returns all rows of the published tables."""
    return {
        kind: sorted(repr(row.asDict(recursive=True)) for row in session.table(name).collect())
        for kind, name in TableNames.of(FEED, TABLE)._asdict().items()
    }


def until(happens: Callable[[], bool], seconds: float = SECONDS) -> None:
    """Waits until it happens, at most this long."""
    deadline = time.monotonic() + seconds
    while not happens() and time.monotonic() < deadline:
        time.sleep(0.02)


def finished(run: Submitted) -> None:
    until(lambda: not run.running)
    assert not run.running, run.done
    assert not run.failed, run.failure
    assert run.done == [*STAGES_WITH_TASKS, "publish"]


@pytest.mark.timeout(2 * SECONDS)
def test_what_is_lost_in_each_stage_changes_nothing(
    spark: SparkSession,
    source: Postgres,
    python: Path,
    expected: dict[str, list[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An executor or a worker is lost in each stage; each run of the test chooses anew which."""
    losses = {stage: choice(("executor", "worker")) for stage in STAGES_WITH_TASKS}
    print(losses)
    with ThreadPoolExecutor(1) as pool, ExitStack() as stack:
        master = stack.enter_context(Master(tmp_path, "master", python, SECRET))

        workers: list[Worker] = []

        def begin(number: int) -> None:
            workers.append(stack.enter_context(Worker(tmp_path, f"worker{number}", python, master)))

        begun: list[Future[None]] = []
        for number in range(2):
            begin(number)
        with Submitted(tmp_path / "cluster", master, source, monkeypatch) as submitted:
            for number, (stage, what) in enumerate(losses.items(), 2):
                lose(submitted, stage, what, workers)
                if what == "worker":
                    # The next stage does not wait for the new worker.
                    begun.append(pool.submit(begin, number))
            finished(submitted)
        for worker in begun:
            worker.result()
        assert re.search(r"Starting task \d+\.1 ", submitted.text), "what was lost has begun again"
        dead = [*losses.values()].count("worker")
        assert sorted(master.workers()) == ["ALIVE", "ALIVE", *["DEAD"] * dead]
    assert published(session_of(spark, submitted.settings)) == expected


def test_yarn(
    spark: SparkSession,
    source: Postgres,
    python: Path,
    expected: dict[str, list[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", str(python))
    with (
        Yarn(JARS.parent, tmp_path) as yarn,
        Submitted(tmp_path / "on_yarn", yarn, source, monkeypatch) as submitted,
    ):
        finished(submitted)
    assert re.search(r"YarnScheduler: Adding task set", submitted.text)
    assert published(session_of(spark, submitted.settings)) == expected
