"""A real Airflow on real services, for tests of whole runs: what they share."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml

from changeledger.config.settings import Settings
from sourcelab import sqlserver_cdc
from sourcelab.airflow_home import AirflowHome
from sourcelab.children import Child
from sourcelab.connect import SparkConnectServer
from sourcelab.log import Log
from sourcelab.process import free_port
from sourcelab.services import Postgres

HOURS = 2
HOUR = timedelta(hours=1)
# Whole hours, long over: this hour's schedule has no part in it.
BEGIN = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - 5 * HOUR
# Killed tasks are tried again: at once, for somebody waits.
_POLICY = """
from datetime import timedelta

def task_policy(task):
    task.retry_delay = timedelta(seconds=2)
"""


def spread(log: Log) -> Log:
    """The log with its transactions at even distances over the hours."""
    step = HOURS * HOUR / (len(log.transactions) + 1)
    reported = []
    for at, one in enumerate(log.transactions, 1):
        moment = BEGIN + at * step
        moment = moment.replace(microsecond=moment.microsecond // 1000 * 1000)
        reported.append(replace(one, begin_time=moment, commit_time=moment))
    return Log(log.tables, tuple(reported))


class Lab:
    """A real Airflow on one source. Its metadata database is read for how things stand."""

    def __init__(
        self,
        airflow: AirflowHome,
        metadata: str,
        settings: Settings,
        parts: Sequence[Child],
        stack: ExitStack,
    ) -> None:
        self.airflow, self.settings, self.parts = airflow, settings, parts
        self._metadata, self._stack = metadata, stack

    def lose_the_scheduler(self) -> None:
        """It dies with all that it has started; after a while another one is there."""
        (scheduler,) = (part for part in self.parts if "scheduler" in part.name)
        scheduler.kill()
        (another,) = (part for part in self.airflow.components() if "scheduler" in part.name)
        self._stack.enter_context(another)

    def cli(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "airflow", *arguments]
        ended = subprocess.run(
            command, env=self.airflow.environment, capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-2000:]

    def backfill(self, dag: str, *more: str) -> None:
        dates = ["--from-date", BEGIN.isoformat(), "--to-date", (BEGIN + (HOURS - 1) * HOUR).isoformat()]
        self.cli("backfill", "create", "--dag-id", dag, *dates, "--max-active-runs", "3", *more)

    def backfills_ended(self) -> bool:
        """The scheduler notes it a while after the last run; until then it lets no other begin."""
        return not self.asked("SELECT 1 FROM backfill WHERE completed_at IS NULL")

    def asked(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with psycopg.connect(self._metadata) as database:
            return database.execute(query, values).fetchall()

    def await_that(self, what: Callable[[], bool], seconds: float = 480) -> None:
        deadline = time.monotonic() + seconds
        while not what():
            failed = self.asked("SELECT dag_id, run_id FROM dag_run WHERE state = 'failed'")
            tasks = (
                "SELECT dag_id, task_id, state, try_number, start_date FROM task_instance ORDER BY start_date"
            )
            assert not failed, f"{failed}: {self.asked(tasks)}"
            assert time.monotonic() < deadline, self.asked(tasks)
            time.sleep(0.5)

    def all_done(self, runs: int) -> Callable[[], bool]:
        count = "SELECT count(*) FROM dag_run WHERE state = 'success'"
        return lambda: self.asked(count) == [(runs,)]

    def has_ended(self, dag: str, task: str) -> bool:
        count = "SELECT count(*) FROM task_instance WHERE dag_id = %s AND task_id = %s AND state = 'success'"
        return self.asked(count, dag, task) != [(0,)]


@contextmanager
def running(
    feeds_named: Sequence[str],
    tables: Sequence[str],
    log: Log,
    tmp_path: Path,
    patch: pytest.MonkeyPatch,
    settings_of_feeds: Mapping[str, Any] | None = None,
) -> Iterator[Lab]:
    """Feeds of these names on one source that writes the log, which Airflow runs when it is asked to."""
    feeds = tmp_path / "feeds"
    feeds.mkdir()
    for name in feeds_named:
        reported = {
            "feed": name,
            "dialect": "sqlserver_cdc",
            "database": "shop",
            "connection": "shop_sqlserver",
            **(settings_of_feeds or {}),
        }
        chosen = [{"table": table} for table in tables]
        (feeds / f"{name}.yaml").write_text(yaml.safe_dump({**reported, "source": {}, "tables": chosen}))
    patch.setenv("CHANGELEDGER_HOME", str(tmp_path / "lake"))
    patch.setenv("CHANGELEDGER_FEEDS", str(feeds))
    settings = Settings()
    airflow = AirflowHome(tmp_path)
    policy = airflow.home / "config" / "airflow_local_settings.py"
    policy.parent.mkdir(parents=True)
    policy.write_text(_POLICY)
    airflow.environment |= {
        # Only what the test asks for.
        "AIRFLOW__SCHEDULER__USE_JOB_SCHEDULE": "False",
        # A lost scheduler is missed soon.
        "AIRFLOW__SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "2",
        "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "15",
        "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "4",
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "20",
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "4",
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_SEC": "3",
    }
    with Postgres(tmp_path) as postgres, ExitStack() as stack:
        metadata = postgres.create_database("airflow")
        airflow.keep_metadata_in(metadata)
        migration = stack.enter_context(airflow.migrate())
        server = stack.enter_context(SparkConnectServer(settings, tmp_path))
        sqlserver_cdc.load(postgres.url, log)
        airflow.connect({"shop_sqlserver": postgres.connection, "changeledger_spark": server.connection})
        airflow.serve_at(free_port())
        migration.wait()
        parts = [stack.enter_context(part) for part in airflow.components()]
        airflow.await_ui(parts)
        yield Lab(airflow, metadata, settings, parts, stack)
