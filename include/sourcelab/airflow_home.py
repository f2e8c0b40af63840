"""A real Airflow with everything it writes in one folder: SQLite, logs, its generated password."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from changeledger.config import PROJECT, Window, connection_variable
from sourcelab.children import Child

_NO_RETRIES = '''\
"""Cluster policy of the demo: somebody waits in front of it, so that a failure is told at once."""


def task_policy(task):
    task.retries = 0
'''


class TaskRun(NamedTuple):
    """How one task went, by Airflow's own clock."""

    task: str
    state: str
    seconds: float


class AirflowHome:
    """Airflow's folder below `home`, for the project's DAGs. This process' CHANGELEDGER_* reach the tasks."""

    def __init__(self, home: Path) -> None:
        self.home = home / "airflow"
        self.logs = home / "logs"
        self.environment = {
            **os.environ,
            "AIRFLOW_HOME": str(self.home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(PROJECT / "dags"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__LOGGING__COLORED_CONSOLE_LOG": "False",
            "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        }

    def connect(self, connections: Mapping[str, Mapping[str, Any]]) -> None:
        for name, connection in connections.items():
            self.environment[connection_variable(name)] = json.dumps(connection)

    def forbid_retries(self) -> None:
        policy = self.home / "config" / "airflow_local_settings.py"
        policy.parent.mkdir(parents=True, exist_ok=True)
        policy.write_text(_NO_RETRIES, "utf-8")

    def migrate(self) -> Child:
        return self.run("airflow-db", "db", "migrate")

    def test_dag(self, dag: str, window: Window) -> Child:
        """One run of a DAG over a window, its tasks one after the other, in Airflow's own process."""
        conf = json.dumps({"start": window.start.isoformat(), "end": window.end.isoformat()})
        return self.run(f"airflow-{dag}", "dags", "test", dag, "--conf", conf)

    def run(self, name: str, *arguments: str) -> Child:
        command = [sys.executable, "-m", "airflow", *arguments]
        what = f"airflow {' '.join(arguments[:3])}"
        return Child(what, command, self.environment, self.logs / f"{name}.log")

    def task_runs(self, dag: str) -> list[TaskRun]:
        """In the order in which they ran."""
        query = (
            "SELECT task_id, coalesce(state, 'not run'), coalesce(duration, 0) FROM task_instance "
            "WHERE dag_id = ? ORDER BY start_date IS NULL, start_date"
        )
        with closing(sqlite3.connect(f"file:{self.home}/airflow.db?mode=ro", uri=True)) as database:
            return [TaskRun(*row) for row in database.execute(query, (dag,))]
