"""A newcomer at a shell who follows the README, and the state in Airflow's database meanwhile."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import psycopg

from changeledger.config.settings import PROJECT
from sourcelab.airflow_home import AirflowHome
from tests.integration.browser import until

README = (PROJECT / "README.md").read_text("utf-8")
# Enough for a machine that is four times slower than usual.
PATIENCE = 900.0
# Extracted windows of an hour, in the order in which they were last read.
_EXTRACTED = """
    SELECT r.logical_date, t.start_date
    FROM dag_run r JOIN task_instance t USING (dag_id, run_id)
    WHERE dag_id = %s AND r.state = 'success' AND t.task_id = 'extract' AND r.logical_date = ANY(%s)
    ORDER BY t.start_date
"""


def blocks(heading: str, language: str = "sh") -> list[str]:
    """Returns the code blocks below a heading of the README."""
    section = README.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(rf"^```{language}\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)


def backfills() -> list[str]:
    """Returns the README's backfill commands: forwards and backwards."""
    (block,) = blocks("Three ways to run it")
    return [" ".join(line.split()) for line in block.replace("\\\n", "").splitlines()[1:]]


def hours_of_backfills() -> str:
    """Returns the line before the README's backfill commands, which sets `$since` and `$until`."""
    (block,) = blocks("Three ways to run it")
    return block.splitlines()[0]


def documented_backfills() -> list[str]:
    """Returns the commands of docs/running.md, with the README's names for the dates."""
    section = (PROJECT / "docs" / "running.md").read_text("utf-8").partition("## Backfill")[2]
    for date, name in (("2026-01-01T00:00", "$since"), ("2026-01-01T05:00", "$until")):
        section = section.replace(date, name)
    commands = re.findall(r"^airflow backfill create (?:.*\\\n)*.*$", section, re.MULTILINE)
    return [" ".join(command.replace("\\\n", "").split()) for command in commands]


class Extracted(NamedTuple):
    hour: datetime
    begun: datetime


class Shell:
    """The shell of a person who has followed the quick start. Airflow's metadata database shows the state."""

    def __init__(self, airflow: AirflowHome, home: Path, feeds: Path) -> None:
        self.airflow, self.home, self.feeds = airflow, home, feeds
        self.environment = (home / "env").read_text("utf-8")
        url = airflow.environment["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"].replace("+psycopg2", "")
        # One connection for all queries: PostgreSQL starts a process for each.
        self._metadata = psycopg.connect(url, autocommit=True)

    def asked(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        return self._metadata.execute(query, values).fetchall()

    def await_rows(self, query: str, *values: object) -> None:
        self._await(lambda: self.asked(query, *values) != [], query)

    def await_none(self, query: str, *values: object) -> None:
        self._await(lambda: self.asked(query, *values) == [], query)

    def await_runs(self, dag: str) -> None:
        """Waits until all runs of the DAG have ended, and asserts that all succeeded."""
        self.await_none("SELECT 1 FROM dag_run WHERE dag_id = %s AND state IN ('queued', 'running')", dag)
        failed = "SELECT run_id FROM dag_run WHERE dag_id = %s AND state <> 'success'"
        assert self.asked(failed, dag) == []

    def _await(self, holds: Callable[[], bool], query: str) -> None:
        tasks = "SELECT dag_id, run_id, task_id, state, try_number FROM task_instance ORDER BY start_date"
        until(holds, PATIENCE, lambda: f"{query}: {self.asked(tasks)}")

    def run(self, commands: str, code: int = 0) -> str:
        """Runs commands, and returns what they print. `code`: the expected exit code."""
        for documented, folder in (
            (".changeledger/up/env", self.home / "env"),
            ("include/feeds", self.feeds),
        ):
            commands = commands.replace(documented, str(folder))
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(PROJECT / "include")}
        ended = subprocess.run(
            ["sh", "-ec", commands], env=environment, capture_output=True, text=True, check=False,
            cwd=self.home, timeout=PATIENCE,
        )  # fmt: skip
        assert ended.returncode == code, ended.stdout[-3000:] + ended.stderr[-3000:]
        assert "OperationalError" not in ended.stderr, "a database that others use meanwhile"
        return ended.stdout + (ended.stderr if code else "")

    def api(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> None:
        """Calls Airflow's own API: a command of Airflow takes seconds to start."""
        ((user, password),) = self.airflow.passwords().items()
        with httpx.Client(base_url=self.airflow.url, timeout=PATIENCE) as client:
            token = client.post("/auth/token", json={"username": user, "password": password}).json()
            headers = {"Authorization": f"Bearer {token['access_token']}"}
            answer = client.request(method, f"/api/v2/{path}", json=body, headers=headers)
        assert answer.is_success, answer.text

    def up(self, commands: str, code: int = 0) -> str:
        """Runs commands in a shell that has read the file of `make up`."""
        return self.run(f". .changeledger/up/env\n{commands}", code)

    def extracted(self, dag: str, hours: Sequence[datetime]) -> list[Extracted]:
        return [Extracted(*row) for row in self.asked(_EXTRACTED, dag, list(hours))]
