"""`make up` as a newcomer has it: the run at the start, connections to be seen, the backfills of the docs."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml
from rich.console import Console

from changeledger.config.settings import PROJECT, Settings
from sourcelab import up
from sourcelab.lab import Progress
from sourcelab.traffic import PAST_HOURS, Traffic

pytestmark = [pytest.mark.integration, pytest.mark.timeout(5400)]

FEED = "shop_cdc"
HOURS = [timedelta(hours=at) for at in range(PAST_HOURS)]
EXTRACTED = """
    SELECT r.logical_date, t.start_date FROM dag_run r JOIN task_instance t USING (dag_id, run_id)
    WHERE dag_id = %s AND r.state = 'success' AND t.task_id = 'extract' AND r.logical_date = ANY(%s)
    ORDER BY t.start_date
"""


def documented(since: datetime, until: datetime) -> list[str]:
    """The commands of the page, word by word, except the dates."""
    section = (PROJECT / "docs" / "running.md").read_text("utf-8").partition("## Backfill")[2]
    commands = re.findall(r"^airflow backfill create (?:.*\\\n)*.*$", section, re.MULTILINE)
    assert len(commands) == 2
    dates = {"2026-01-01T00:00": since, "2026-01-01T05:00": until}
    for said, meant in dates.items():
        commands = [command.replace(said, f"{meant:%Y-%m-%dT%H:%M}") for command in commands]
    return commands


def test_the_start_and_backfills_both_ways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("feeds", "databases"):
        (tmp_path / name).mkdir()
        monkeypatch.setenv(f"CHANGELEDGER_{name.upper()}", str(tmp_path / name))
    # One feed with one of its tables, and nothing beside it: minutes less.
    reported = yaml.safe_load((PROJECT / "include" / "feeds" / f"{FEED}.yaml").read_text("utf-8"))
    reported["tables"] = reported["tables"][:1]
    (tmp_path / "feeds" / f"{FEED}.yaml").write_text(yaml.safe_dump(reported))
    (tmp_path / "databases" / "shop.yaml").write_text("database: shop\nverify: null\n")
    monkeypatch.setenv("CHANGELEDGER_HOME", str(tmp_path))
    traffic = Traffic(7, datetime.now(UTC))
    with up.started(Progress(Console()), tmp_path, Settings(), traffic) as (sources, airflow, _):
        metadata = airflow.environment["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"].replace("+psycopg2", "")
        hours = [traffic.begin + hour for hour in HOURS]

        def asked(query: str, *values: object) -> list[tuple[Any, ...]]:
            with psycopg.connect(metadata) as database:
                return database.execute(query, values).fetchall()

        def extracted() -> list[tuple[Any, ...]]:
            return asked(EXTRACTED, FEED, hours)

        def backfilled() -> bool:
            assert asked("SELECT 1 FROM dag_run WHERE state = 'failed'") == []
            return asked("SELECT 1 FROM backfill WHERE completed_at IS NULL") == []

        stored = {name for (name,) in asked("SELECT conn_id FROM connection")}
        assert stored == {"shop_sqlserver", "shop_qlik_target", "shop_kafka", "changeledger_spark"}
        # The schedule has run the last whole hour: nobody need wait for the next one.
        until(lambda: [hour for hour, _ in extracted()] == hours[-1:])
        assert asked("SELECT task_id FROM task_instance WHERE try_number > 1") == [], "none was lost"
        forwards, backwards = documented(hours[0], hours[-1])
        assert "OperationalError" not in shell(tmp_path, forwards)
        until(lambda: backfilled() and len(extracted()) == len(hours))
        assert [hour for hour, _ in extracted()] == [hours[-1], *hours[:-1]]
        before = datetime.now(UTC)
        assert "OperationalError" not in shell(tmp_path, backwards)
        until(lambda: backfilled() and len(extracted()) == len(hours))
        assert [hour for hour, _ in extracted()] == hours[::-1]
        assert all(start > before for _, start in extracted()), "each of them again"
        printed = "\n".join(up.welcome(tmp_path, Settings(), sources, airflow, traffic))
        (query,) = re.findall(r"changeledger query \".*?\"", printed)
        assert "5 rows" in shell(tmp_path, query)


def shell(home: Path, command: str) -> str:
    """What a command says to whoever has read the file that `make up` names."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(PROJECT / "include")}
    ended = subprocess.run(
        ["sh", "-c", f". {home}/env; {command}"],
        env=environment, capture_output=True, text=True, check=False, timeout=900,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-3000:]
    return ended.stdout + ended.stderr


def until(holds: Callable[[], bool], seconds: float = 1800) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(1)
