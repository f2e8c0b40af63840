"""Runs a real Airflow whose metadata, logs and generated password are all in one folder."""

from __future__ import annotations

import json
import os
import re
import secrets
import sqlite3
import sys
import time
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from changeledger.config.connection import connection_variable
from changeledger.config.settings import PROJECT
from changeledger.model.window import Window
from sourcelab.children import Child, ChildFailed, require_running

_POLICY = '''\
"""Cluster policy of the demo: somebody waits in front of it, so that a failure is shown at once."""


def task_policy(task):
    task.retries = 0


def dag_policy(dag):
    # `airflow dags test` ends every run with a search for its deadline that fails.
    dag.deadline = None
'''


# The same as in `changeledger.orchestration.feed_dag`, which takes seconds to import.
POOL = "changeledger"
_JOBS_AT_ONCE = 2
_AIRFLOW = (sys.executable, "-m", "airflow")
# Runs several Airflow commands in one process: importing Airflow takes longer than the work.
_COMMANDS = """
import json, sys
from airflow.__main__ import main
for command in json.loads(sys.argv[1]):
    sys.argv = ["airflow", *command]
    try:
        main()
    except SystemExit as ended:
        if ended.code:
            raise
"""
# What a task's job printed, between Airflow's own prefix and suffix.
_OF_JOB = re.compile(r"^\S+ \[\w+ *\] (.*?)\s*\[airflow\.task\.operators\.changeledger", re.MULTILINE)
_DONE = re.compile(r"(\w+) (\w+) done in ([\d.]+) s, after ([\d.]+) s for the Spark session")
_LAST_LINES = 25
_PATIENCE_SECONDS = 180.0


class TaskRun(NamedTuple):
    """How one task ended, timed by Airflow's clock."""

    task: str
    state: str
    seconds: float


class DagTest(Child):
    """One run of a DAG (`airflow dags test`): its tasks run one after the other in one process."""

    @property
    def done(self) -> list[str]:
        """One line for each stage that has succeeded so far."""
        stages = _DONE.findall(self.log.read_text("utf-8", "replace"))
        return [
            f"{feed}: {stage} done in {float(run) + float(start):.1f} s" for stage, feed, run, start in stages
        ]

    @property
    def failure(self) -> str:
        """The last lines that the failing job printed, without Java's stack."""
        printed = _OF_JOB.findall(self.log.read_text("utf-8", "replace"))
        lines = [line for line in printed if not line.startswith("\tat ")][-_LAST_LINES:]
        return (
            "\n    ".join([f"{self.name} failed; its log is {self.log}", *lines])
            if lines
            else super().failure
        )


class AirflowHome:
    """Airflow's folder below `home`, for the project's DAGs. Tasks inherit CHANGELEDGER_* variables."""

    def __init__(self, home: Path) -> None:
        self.home = home / "airflow"
        self.logs = home / "logs"
        self.url = ""
        self.environment = {
            **os.environ,
            "AIRFLOW_HOME": str(self.home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(PROJECT / "dags"),
            # Needed before the DAGs are stored, which `migrate` does.
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__LOGGING__COLORED_CONSOLE_LOG": "False",
            "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        }

    def keep_metadata_in(self, postgres: str) -> None:
        """Moves the metadata to that PostgreSQL database.

        SQLite refuses some writes when scheduler, tasks and commands write at once.
        """
        self.environment["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] = postgres.replace("://", "+psycopg2://")

    def store(self, connections: Mapping[str, Mapping[str, Any]]) -> Child:
        """Imports connections into the metadata, so that Admin > Connections shows them.

        It does not show those of `connect`.
        """
        file = self.home / "connections.json"
        file.touch(0o600)
        file.write_text(json.dumps(connections), "utf-8")
        command = [*_AIRFLOW, "connections", "import", "--overwrite", str(file)]
        log = self.logs / "airflow-connections.log"
        return Child("airflow connections import", command, self.environment, log)

    def connect(self, connections: Mapping[str, Mapping[str, Any]]) -> None:
        for name, connection in connections.items():
            self.environment[connection_variable(name)] = json.dumps(connection)

    def forbid_retries(self) -> None:
        policy = self.home / "config" / "airflow_local_settings.py"
        policy.parent.mkdir(parents=True, exist_ok=True)
        policy.write_text(_POLICY, "utf-8")

    def migrate(self) -> Child:
        """Creates the metadata database and the pool, and stores all DAGs.

        DAGs that start together would otherwise all try to store them.
        """
        pool = [POOL, str(_JOBS_AT_ONCE), "Spark jobs at once"]
        steps = [["db", "migrate"], ["pools", "set", *pool], ["dags", "reserialize"]]
        command = [sys.executable, "-c", _COMMANDS, json.dumps(steps)]
        return Child("airflow db migrate", command, self.environment, self.logs / "airflow-db.log")

    def components(self) -> list[Child]:
        """API server with the UI, scheduler and DAG processor.

        `airflow standalone` is not used: it would also serve logs on every address of the machine.
        """
        parts = (("api-server",), ("scheduler", "--skip-serve-logs"), ("dag-processor",))
        return [
            Child(f"airflow {part[0]}", [*_AIRFLOW, *part], self.environment, self.logs / f"{part[0]}.log")
            for part in parts
        ]

    def triggerer(self) -> Child:
        """Airflow's triggerer. No task of the project uses it, but Airflow's home page is red without it."""
        log = self.logs / "triggerer.log"
        command = [*_AIRFLOW, "triggerer", "--skip-serve-logs"]
        return Child("airflow triggerer", command, self.environment, log)

    def serve_at(self, port: int) -> None:
        """Makes the components serve on this port of the loopback address."""
        self.url = f"http://127.0.0.1:{port}"
        self.environment |= {
            "AIRFLOW__API__HOST": "127.0.0.1",
            "AIRFLOW__API__PORT": str(port),
            "AIRFLOW__API__BASE_URL": self.url,
            "AIRFLOW__API__WORKERS": "1",
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "AIRFLOW__CORE__PARALLELISM": "4",
            # Secrets that Airflow's parts share, generated for each start.
            "AIRFLOW__API__SECRET_KEY": secrets.token_urlsafe(32),
            "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_urlsafe(64),
        }

    def await_ui(self, parts: Sequence[Child]) -> None:
        """Waits until the UI answers. Raises ChildFailed if a part ends or the UI does not answer in time."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            require_running(parts)
            try:
                with urllib.request.urlopen(f"{self.url}/api/v2/version", timeout=5):  # noqa: S310 - ours
                    return
            # Includes a server that already listens but closes the connection, because it does not serve yet.
            except OSError:
                if time.monotonic() > deadline:
                    raise ChildFailed(
                        f"Airflow's UI did not answer for {_PATIENCE_SECONDS:.0f} s; read {parts[0].log}"
                    ) from None
                time.sleep(0.5)

    def passwords(self) -> dict[str, str]:
        """Passwords by user, as Airflow generated them."""
        written = (self.home / "simple_auth_manager_passwords.json.generated").read_text("utf-8")
        return dict(json.loads(written))

    def test_dag(self, dag: str, file: str, window: Window) -> DagTest:
        """Starts a test run of a DAG. `file`: its file in `dags/`; `migrate` has stored the other DAGs."""
        conf = json.dumps(
            {"mode": "window", "start": window.start.isoformat(), "end": window.end.isoformat()}
        )
        place = ["--bundle-name", "dags-folder", "--dagfile-path", str(PROJECT / "dags" / file)]
        command = [*_AIRFLOW, "dags", "test", dag, *place, "--conf", conf]
        return DagTest(
            f"airflow dags test {dag}", command, self.environment, self.logs / f"airflow-{dag}.log"
        )

    def task_runs(self, dag: str) -> list[TaskRun]:
        """Returns the task runs of a DAG, in the order in which they ran."""
        query = (
            "SELECT task_id, coalesce(state, 'not run'), coalesce(duration, 0) FROM task_instance "
            "WHERE dag_id = ? ORDER BY start_date IS NULL, start_date"
        )
        with closing(sqlite3.connect(f"file:{self.home}/airflow.db?mode=ro", uri=True)) as database:
            return [TaskRun(*row) for row in database.execute(query, (dag,))]
