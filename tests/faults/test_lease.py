"""A job takes its feed's lease once, and writes nothing after another process has taken it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from changeledger import exit_codes
from changeledger.config.settings import PROJECT
from changeledger.control import ControlStore
from changeledger.model.window import Window
from tests.faults.matrix.effects import Fault
from tests.faults.matrix.jobs import Job, Jobs, Place

FEED = "shop"
HOUR = Window(start=datetime(2026, 1, 31, 11, tzinfo=UTC), end=datetime(2026, 1, 31, 12, tzinfo=UTC))
# A stage that needs neither Spark nor a source.
_JOB = """
from changeledger.job import main
from changeledger.stages.common.frame import stage

@stage
def run(ctx):
    ctx.control.windows.open(ctx.feed.feed, ctx.window, None, {"dbo.parts": "0A"})
    ctx.control.windows.begin_stage(ctx.feed.feed, ctx.window, "extract")

main(run)
"""
TABLE_QUERY = {
    "feed": FEED,
    "dialect": "sqlserver_cdc",
    "database": "shop",
    "connection": "none",
    "source": {},
    "tables": [{"table": "dbo.parts"}],
}


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jobs]:
    modules = ("changeledger.job", "changeledger.stages.common.frame")
    jobs = Jobs(tmp_path_factory.mktemp("jobs") / "log", modules)
    yield jobs
    jobs.close()


def start(jobs: Jobs, folder: Path, fault: Fault | None = None) -> Job:
    (folder / "feeds").mkdir()
    (folder / "feeds" / "shop.yaml").write_text(yaml.safe_dump(TABLE_QUERY))
    (folder / "job.py").write_text(_JOB)
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(PROJECT / "include"),
        "CHANGELEDGER_HOME": str(folder),
        "CHANGELEDGER_FEEDS": str(folder / "feeds"),
    }
    over = ["--start", HOUR.start.isoformat(), "--end", HOUR.end.isoformat()]
    return jobs.start(Place(environment, {}), folder, [str(folder / "job.py"), "--feed", FEED, *over], fault)


# A stage whose lease lasts a second, and whose control store stops answering, so that renewing it hangs.
_HANGS = """
import sqlite3, time
from changeledger.control import ControlStore, lease_heartbeat
from changeledger.config.settings import Settings
control = ControlStore(Settings().control_url)
control.leases.acquire("shop", "me", 1.0)
with lease_heartbeat(control.leases, "shop", "me", 1.0):
    other = sqlite3.connect(Settings().home / "control.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    time.sleep(20)
print("it has gone on")
"""


def store(folder: Path) -> ControlStore:
    return ControlStore(f"sqlite:///{folder / 'control.db'}")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    store(tmp_path)
    return tmp_path


def test_one_job_takes_the_lease_once(jobs: Jobs, folder: Path) -> None:
    job = start(jobs, folder)
    assert job.wait() == 0, job.printed
    labels = [effect["label"] for effect in job.written() if effect["kind"] == "control"]
    assert labels[0] == "insert leases"
    assert labels.count("insert leases") == 1, labels
    assert store(folder).windows.row(FEED, HOUR.id) is not None


def test_a_process_whose_lease_has_run_out_ends(jobs: Jobs, folder: Path) -> None:
    (folder / "job.py").write_text(_HANGS)
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(PROJECT / "include"),
        "CHANGELEDGER_HOME": str(folder),
    }
    began = time.monotonic()
    job = jobs.start(Place(environment, {}), folder, [str(folder / "job.py")])
    assert job.wait() == exit_codes.HELD, job.printed
    assert time.monotonic() - began < 10
    assert "it has gone on" not in job.printed


@pytest.mark.parametrize("holder", [HOUR.holder, "another run"])
def test_it_writes_nothing_once_another_process_has_the_lease(jobs: Jobs, folder: Path, holder: str) -> None:
    job = start(jobs, folder, Fault("meet", 2))
    assert job.await_meeting()
    other = ControlStore(f"sqlite:///{folder / 'control.db'}", process="another")
    other.leases.release(FEED, HOUR.holder)
    token = other.leases.acquire(FEED, holder, 600)
    job.go_on()
    assert job.wait() == exit_codes.HELD, job.printed
    assert "has lost its lease" in job.printed
    assert other.windows.row(FEED, HOUR.id) is None
    held = other.leases.of_feed(FEED)
    assert held is not None
    assert (held.holder, held.token) == (holder, token), "what the other one holds stays"
