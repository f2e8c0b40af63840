"""`make up` with one feed of one table. The same functions are called, on the test's own folders."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from rich.console import Console

import changeledger
from changeledger.config.settings import PROJECT, Settings
from changeledger.reader import Kind
from changeledger.spark.session import FOR_MINUTES_JVM
from sourcelab import up
from sourcelab.lab import Progress
from sourcelab.log import Log
from sourcelab.tables import CUSTOMERS
from sourcelab.traffic import PAST_HOURS, Traffic
from tests.integration.newcomer import Shell

FEED, TABLE = "shop_cdc", CUSTOMERS.full_name
HOUR = timedelta(hours=1)
_KINDS: tuple[Kind, ...] = ("current", "history", "changes")
_OF_THE_RUN = ("_window_id", "window_id", "feed", "source_position", "paired_source_position")
# Killed tasks are retried at once, because somebody waits. DAGs that would interfere are paused.
_POLICY = """
from datetime import timedelta

def task_policy(task):
    task.retry_delay = timedelta(seconds=2)

def dag_policy(dag):
    dag.is_paused_upon_creation = dag.dag_id in ("maintain", "compare_shop")
"""
# A lost scheduler is noticed soon.
_MISSED = {
    "SCHEDULER_HEARTBEAT_SEC": "2",
    "SCHEDULER_HEALTH_CHECK_THRESHOLD": "15",
    "ORPHANED_TASKS_CHECK_INTERVAL": "4",
    "TASK_INSTANCE_HEARTBEAT_SEC": "3",
    "TASK_INSTANCE_HEARTBEAT_TIMEOUT": "25",
    "TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "4",
}


class Up(NamedTuple):
    """What `make up` has started."""

    shell: Shell
    running: up.Running
    log: Log
    # Hours of the past; the schedule runs the last one.
    hours: tuple[datetime, ...]
    welcome: str
    stack: ExitStack

    def dates(self, first: datetime, last: datetime) -> str:
        """Returns a shell line with the README's names for hours of the past, independent of the clock."""
        return f"since={first:%Y-%m-%dT%H:00} until={last:%Y-%m-%dT%H:00}"

    def lose(self, name: str) -> None:
        """Kills a part with all its descendants, and restarts it as `make up` does."""
        (part,) = (part for part in self.running.parts if part.name == name)
        part.kill()
        self.running.keep()


def published(feed: str) -> dict[str, list[str]]:
    """Returns the rows of each table, without the columns that say which run and feed wrote them."""
    return {
        kind: sorted(
            repr({name: cell for name, cell in row.items() if name not in _OF_THE_RUN})
            for row in changeledger.read(feed, TABLE, kind=kind).to_pylist()
        )
        for kind in _KINDS
    }


@contextmanager
def installed_in(folder: Path) -> Iterator[Up]:
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        feeds = _configured(folder, patch)
        traffic, progress = Traffic(7, datetime.now(UTC)), Progress(Console())
        sources, airflow, running = stack.enter_context(up.started(progress, folder, Settings(), traffic))
        hours = tuple(traffic.begin + at * HOUR for at in range(PAST_HOURS))
        welcome = "\n".join(up.welcome(folder, Settings(), sources, airflow, traffic))
        yield Up(Shell(airflow, folder, feeds), running, traffic.log, hours, welcome, stack)


def _configured(folder: Path, patch: pytest.MonkeyPatch) -> Path:
    """Sets up the project's own files with only one table, and returns the folder of feeds."""
    feeds, policy = folder / "feeds", folder / "airflow" / "config" / "airflow_local_settings.py"
    feeds.mkdir()
    feed = yaml.safe_load((PROJECT / "include" / "feeds" / f"{FEED}.yaml").read_text("utf-8"))
    (feeds / f"{FEED}.yaml").write_text(yaml.safe_dump({**feed, "tables": [{"table": TABLE}]}), "utf-8")
    shutil.copytree(PROJECT / "include" / "databases", folder / "databases")
    policy.parent.mkdir(parents=True)
    policy.write_text(_POLICY, "utf-8")
    patch.setenv("CHANGELEDGER_HOME", str(folder))
    for name in ("feeds", "databases"):
        patch.setenv(f"CHANGELEDGER_{name.upper()}", str(folder / name))
    # For Spark's server, which ends before a thorough JIT compiler pays off.
    patch.setenv("JDK_JAVA_OPTIONS", FOR_MINUTES_JVM, prepend=" ")
    for name, value in _MISSED.items():
        patch.setenv(f"AIRFLOW__SCHEDULER__{name}", value)
    return feeds
