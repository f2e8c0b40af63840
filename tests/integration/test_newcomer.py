"""The walk of a newcomer through `make up`, by the README word for word, in front of Airflow's pages.

Two feeds of one table each, so that it fits into minutes. What `make up` calls is called here, with folders
of the test's own in place of those in the project.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml
from rich.console import Console

from changeledger.config.settings import PROJECT, Settings
from sourcelab import up
from sourcelab.airflow_home import AirflowHome
from sourcelab.lab import Progress
from sourcelab.postgres import plain_url
from sourcelab.services import Postgres
from sourcelab.traffic import Traffic
from tests.integration import browser
from tests.integration.browser import Browser, until
from tests.integration.test_browser import choose, log_in

pytestmark = [
    pytest.mark.integration,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(browser.missing() is not None, reason=str(browser.missing())),
]

CT = 'cdc."dbo_customers_CT"'
FEED, OTHER, ADDED, TABLE = "shop_cdc", "shop_qlik_tables", "my_feed", "dbo.customers"
README = (PROJECT / "README.md").read_text("utf-8")
# They would run beside what is walked through.
POLICY = """
def dag_policy(dag):
    dag.is_paused_upon_creation = dag.dag_id in ("maintain", "compare_shop")
"""
# Of a machine that is four times slower than usual.
PATIENCE = 900.0


def blocks(heading: str, language: str = "sh") -> list[str]:
    """The code below a heading of the README."""
    section = README.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(rf"^```{language}\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)


class Walk:
    """A newcomer at a browser and a shell."""

    def __init__(self, page: Browser, airflow: AirflowHome, home: Path, feeds: Path) -> None:
        self.page, self.airflow, self.home, self.feeds = page, airflow, home, feeds
        url = airflow.environment["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"].replace("+psycopg2", "")
        # One for all questions: PostgreSQL starts a process for each.
        self._metadata = psycopg.connect(url, autocommit=True)

    def asked(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        return self._metadata.execute(query, values).fetchall()

    def shell(self, commands: str, code: int = 0) -> str:
        """What they print, to whoever has followed the quick start. `code`: how they end."""
        for said, meant in ((".changeledger/up/env", self.home / "env"), ("include/feeds", self.feeds)):
            commands = commands.replace(said, str(meant))
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(PROJECT / "include")}
        ended = subprocess.run(
            ["sh", "-ec", commands], env=environment, capture_output=True, text=True, check=False,
            cwd=self.home, timeout=PATIENCE,
        )  # fmt: skip
        assert ended.returncode == code, ended.stdout[-3000:] + ended.stderr[-3000:]
        return ended.stdout + (ended.stderr if code else "")

    def trigger(self, dag: str, mode: str | None = None) -> str:
        """By the form; returns the run."""
        runs = "SELECT run_id FROM dag_run WHERE dag_id = %s AND run_type = 'manual' ORDER BY id"
        before = self.asked(runs, dag)
        self.page.go(f"{self.airflow.url}/dags/{dag}")
        self.page.click("//button[@data-testid='trigger-dag-button']", PATIENCE)
        if mode:
            choose(self.page, "Mode", mode)
        self.page.click("//button[@data-testid='trigger-dag-submit']")
        until(lambda: len(self.asked(runs, dag)) > len(before), PATIENCE, lambda: self.page.text[:3000])
        return str(self.asked(runs, dag)[-1][0])

    def state(self, dag: str, run: str) -> str:
        ((state,),) = self.asked("SELECT state FROM dag_run WHERE dag_id = %s AND run_id = %s", dag, run)
        return str(state)

    def await_end(self, dag: str, run: str, state: str = "success") -> None:
        """Without a page: one that shows a run draws itself all the time, for a third of a processor."""
        self.page.go("about:blank")
        until(lambda: self.state(dag, run) in {"success", "failed"}, PATIENCE, lambda: f"{dag} {run}")
        tasks = "SELECT task_id, state FROM task_instance WHERE dag_id = %s AND run_id = %s"
        assert self.state(dag, run) == state, self.asked(tasks, dag, run)

    def await_text(self, *texts: str) -> None:
        until(lambda: all(text in self.page.text for text in texts), PATIENCE, lambda: self.page.text[:3000])

    def quick_start(self) -> None:
        made, asked = blocks("Quick start")
        assert "\nmake up " in made
        first = "SELECT count(*) FROM dag_run WHERE dag_id = ANY(%s) AND state = 'success'"
        until(lambda: self.asked(first, [FEED, OTHER]) == [(2,)], PATIENCE, lambda: "no first runs")
        answer = self.shell(asked)
        assert FEED in answer
        assert "5 rows" in answer
        (query,) = blocks("What you get", "sql")
        rows = self.shell(f'{asked.splitlines()[0]}\nchangeledger query --json "{query}"').splitlines()
        assert rows, "the README's example gives rows"

    def form(self) -> None:
        log_in(self.page, self.airflow)
        self.await_end(FEED, self.trigger(FEED))
        run = self.trigger(FEED, "window: from start to end")
        self.await_end(FEED, run, "failed")
        self.page.go(f"{self.airflow.url}/dags/{FEED}/runs/{run}/tasks/extract")
        self.await_text("the mode `window` needs both `start` and `end`")

    def broken_feed(self) -> None:
        file = self.feeds / f"{OTHER}.yaml"
        sound = file.read_text("utf-8")
        file.write_text(sound + 'shedule: "0 * * * *"\n', "utf-8")
        errors = "SELECT stacktrace FROM import_error"
        until(lambda: self.asked(errors) != [], PATIENCE, lambda: "no import error")
        self.page.go(f"{self.airflow.url}/dags")
        # The red number beside the number of DAGs.
        self.page.click("//button[normalize-space(.) = '1']", PATIENCE)
        self.await_text("settings_errors.py")
        ((shown,),) = self.asked(errors)
        assert "did you mean `schedule`?" in shown
        file.write_text(sound, "utf-8")
        until(lambda: self.asked(errors) == [], PATIENCE, lambda: str(self.asked(errors)))

    def backfills(self) -> None:
        (block,) = blocks("Three ways to run it")
        # Hours cost. The schedule has run the last one, and the one before where an hour ends meanwhile.
        times, forwards, backwards = block.replace("4 hours", "3 hours").replace("\\\n", "").splitlines()
        open_ones = "SELECT 1 FROM backfill WHERE completed_at IS NULL"
        for command in (forwards, backwards):
            self.shell(f". .changeledger/up/env\n{times}\n{command}")
            until(lambda: self.asked(open_ones) == [], PATIENCE, lambda: "a backfill does not end")
        runs = "SELECT state, count(*) FROM dag_run WHERE backfill_id IS NOT NULL GROUP BY state"
        assert self.asked(runs) == [("success", 3)]

    def report(self, dag: str, task: str, text: str) -> None:
        run = self.trigger(dag)
        self.await_end(dag, run)
        self.open_link(dag, run, task, "Report", text)

    def open_link(self, dag: str, run: str, task: str, name: str, *texts: str) -> None:
        """The link of a task, to a page that has these texts."""
        self.page.go(f"{self.airflow.url}/dags/{dag}/runs/{run}/tasks/{task}/details")
        link = self.page.attribute(f"//a[contains(., '{name}')]", "href")
        assert link is not None
        self.page.go(link)
        self.await_text(*texts)

    def first_proof(self) -> None:
        """It comes by itself, with the first release."""
        runs = "SELECT run_id FROM dag_run WHERE dag_id = 'verify_shop' AND state = 'success' ORDER BY id"
        until(lambda: self.asked(runs) != [], PATIENCE, lambda: "no proof came by itself")
        self.open_link("verify_shop", self.asked(runs)[0][0], "verify", "Report", f"{FEED} is proven")
        # Others would run after each release, beside what is walked through.
        self.asked("UPDATE dag SET is_paused = true WHERE dag_id = 'verify_shop' RETURNING 1")

    def bad_record(self, source: Postgres) -> None:
        """A record that cannot be read: page and `status` say so, and what to do."""
        with psycopg.connect(plain_url(source.url), autocommit=True) as database:
            changed = database.execute(
                f'UPDATE {CT} SET "__$operation" = 9 WHERE "__$start_lsn" = '
                f'(SELECT max("__$start_lsn") FROM {CT}) AND "__$operation" <> 9 RETURNING 1'
            ).fetchall()
        assert changed
        again = {"mode": "window", "start": "2020-01-01T00:00:00Z", "end": datetime.now(UTC).isoformat()}
        self.shell(f". .changeledger/up/env\nairflow dags trigger {FEED} --conf '{json.dumps(again)}'")
        runs = "SELECT run_id FROM dag_run WHERE dag_id = %s AND run_type = 'manual' ORDER BY id"
        run = self.asked(runs, FEED)[-1][0]
        until(lambda: self.state(FEED, run) in {"success", "failed"}, PATIENCE, lambda: f"{FEED} {run}")
        self.open_link(FEED, run, "audit", "Data Docs", "no_quarantined_records", "What next")
        assert TABLE in self.shell(f". .changeledger/up/env\nchangeledger quarantine list {FEED}")
        assert "quarantine" in self.shell(f". .changeledger/up/env\nchangeledger status {FEED}")

    def lost_connection(self) -> None:
        """`status` says why a run failed before its window was stored."""
        self.shell(". .changeledger/up/env\nairflow connections delete shop_sqlserver")
        self.await_end(ADDED, self.trigger(ADDED), "failed")
        said = self.shell(f". .changeledger/up/env\nchangeledger status {ADDED}", code=1)
        said = " ".join(said.split())
        assert "FAILED extract" in said
        assert "the Airflow connection 'shop_sqlserver' does not exist" in said

    def add_a_feed(self) -> None:
        (command,) = blocks("Add a feed")
        self.shell(command)
        there = "SELECT 1 FROM dag WHERE dag_id = %s"
        until(lambda: self.asked(there, ADDED) != [], PATIENCE, lambda: "the DAG does not appear")
        self.await_end(ADDED, self.trigger(ADDED))


def old_shell(walk: Walk, environment: str) -> None:
    """Of a `make up` that has ended: a query needs none of it, and a command that does says so at once."""
    old = walk.home / "old_env"
    old.write_text(environment, "utf-8")
    sql = f'"SELECT count(*) FROM lake.{FEED}.dbo_customers"'
    assert "1 row" in walk.shell(f". {old}\nchangeledger query {sql}")
    began = time.monotonic()
    said = walk.shell(f". {old}\nchangeledger query --spark {sql}", code=1)
    assert time.monotonic() - began < 60, "not the ten minutes that Spark's client would wait"
    assert "/env" in said, said


def small(folder: Path, patch: pytest.MonkeyPatch) -> Path:
    """The feeds' own files, with one table each; returns their folder."""
    feeds = folder / "feeds"
    feeds.mkdir()
    for name in (FEED, OTHER):
        reported = yaml.safe_load((PROJECT / "include" / "feeds" / f"{name}.yaml").read_text("utf-8"))
        reported["tables"] = [one for one in reported["tables"] if one["table"] == TABLE]
        (feeds / f"{name}.yaml").write_text(yaml.safe_dump(reported), "utf-8")
    shutil.copytree(PROJECT / "include" / "databases", folder / "databases")
    policy = folder / "airflow" / "config" / "airflow_local_settings.py"
    policy.parent.mkdir(parents=True)
    policy.write_text(POLICY, "utf-8")
    patch.setenv("CHANGELEDGER_HOME", str(folder))
    for name in ("feeds", "databases"):
        patch.setenv(f"CHANGELEDGER_{name.upper()}", str(folder / name))
    return feeds


def test_the_walk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    feeds = small(tmp_path, monkeypatch)
    traffic = Traffic(7, datetime.now(UTC))
    with (
        up.started(Progress(Console()), tmp_path, Settings(), traffic) as (sources, airflow, _parts),
        Browser(tmp_path / "chromedriver.log") as page,
    ):
        walk = Walk(page, airflow, tmp_path, feeds)
        environment = (tmp_path / "env").read_text("utf-8")
        try:
            walk.quick_start()
            walk.form()
            walk.first_proof()
            walk.broken_feed()
            walk.backfills()
            walk.report("compare_shop", "compare", f"{OTHER} agrees with the reference in all")
            walk.bad_record(sources.postgres)
            walk.add_a_feed()
            walk.lost_connection()
        except AssertionError:
            page.picture(tmp_path / "failed.png")
            raise
    old_shell(walk, environment)
