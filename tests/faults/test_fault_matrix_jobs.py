"""Faults between the effects of a process, here of one that only writes the control store."""

from __future__ import annotations

import os
import signal
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from changeledger.config.settings import PROJECT
from tests.faults.matrix.effects import Fault
from tests.faults.matrix.jobs import Job, Jobs, Place

# Three transactions that write, and one that only reads.
_JOB = """
from changeledger.config.settings import Settings
from changeledger.control import ControlStore
control = ControlStore(Settings().control_url)
for feed in ("one", "two", "three"):
    control.leases.acquire(feed, "somebody", 60)
    control.windows.position(feed)
print("done", flush=True)
"""
_LABELS = ["insert leases"] * 3


class Bench:
    """A control store with its schema, and the job."""

    def __init__(self, jobs: Jobs, folder: Path) -> None:
        self.jobs, self.folder = jobs, folder
        (folder / "job.py").write_text(_JOB)
        self.start().wait()
        with closing(self._control()) as control:
            control.execute("DELETE FROM leases")
            control.commit()

    def start(self, fault: Fault | None = None, clock: float = 0) -> Job:
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(PROJECT / "include"),
            "CHANGELEDGER_HOME": str(self.folder),
        }
        command = [str(self.folder / "job.py")]
        return self.jobs.start(Place(environment, {}), self.folder, command, fault, clock=clock)

    def feeds(self) -> list[str]:
        with closing(self._control()) as control:
            return [row[0] for row in control.execute("SELECT feed FROM leases ORDER BY rowid")]

    def _control(self) -> sqlite3.Connection:
        return sqlite3.connect(self.folder / "control.db")


@pytest.fixture
def bench(jobs: Jobs, tmp_path: Path) -> Bench:
    return Bench(jobs, tmp_path)


def test_effects_are_numbered(bench: Bench) -> None:
    job = bench.start()
    assert job.wait() == 0, job.printed
    assert [(e["at"], e["kind"], e["label"]) for e in job.written()] == [
        (n, "control", label) for n, label in enumerate(_LABELS, start=1)
    ]


@pytest.mark.parametrize(
    ("at", "feeds"), [(1, []), (2, ["one"]), (3, ["one", "two"]), (4, ["one", "two", "three"])]
)
def test_killed_between_two_effects(bench: Bench, at: int, feeds: list[str]) -> None:
    job = bench.start(Fault("kill", at))
    assert job.wait() == -signal.SIGKILL
    assert bench.feeds() == feeds
    assert ("done" in job.printed) == (at == 4), "and once behind the last"


@pytest.mark.parametrize(("do", "feeds"), [("refuse", ["one"]), ("lose", ["one", "two"])])
def test_an_error_instead_of_an_effect_and_after_it(bench: Bench, do: str, feeds: list[str]) -> None:
    job = bench.start(Fault(do, 2))
    assert job.wait() == 1
    assert "SourceUnavailable: the control store" in job.printed
    assert bench.feeds() == feeds


def test_stopped_and_on_again(bench: Bench) -> None:
    job = bench.start(Fault("stop", 2))
    assert job.await_meeting()
    assert bench.feeds() == ["one"]
    job.go_on()
    assert job.wait() == 0, job.printed
    assert bench.feeds() == ["one", "two", "three"]


@pytest.mark.parametrize("do", ["meet", "orphan"])
def test_something_happens_between_two_effects(bench: Bench, do: str) -> None:
    job = bench.start(Fault(do, 3))
    assert job.await_meeting()
    assert bench.feeds() == ["one", "two"]
    job.go_on()
    job.wait()
    assert bench.feeds() == ["one", "two", "three"]
    assert ("done" in job.printed) == (do == "meet"), "nobody reads what an orphan prints"


@pytest.mark.parametrize("hours", [2, -2])
def test_a_clock_that_is_wrong(bench: Bench, hours: int) -> None:
    job = bench.start(clock=hours * 3600)
    assert job.wait() == 0, job.printed
    with closing(bench._control()) as control:
        ((text,), *_) = control.execute("SELECT expires_at FROM leases")
    by = datetime.fromisoformat(text).replace(tzinfo=UTC) - datetime.now(UTC)
    assert abs(by.total_seconds() - hours * 3600) < 300
