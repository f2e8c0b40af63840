"""Going on after a fault: what is retried, what waits, and what a remedy asks for."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from changeledger.config.settings import PROJECT
from tests.faults.matrix.jobs import Job, Jobs, Place
from tests.faults.matrix.lab import State
from tests.faults.matrix.operator import Defect, Operator, Stopped

# Prints and exits as the next line of its script says.
_JOB = """
import json, sys
from pathlib import Path
script = Path(sys.argv[0]).with_name("script.jsonl")
stage, *later = script.read_text().splitlines()
script.write_text("".join(line + chr(10) for line in later))
wanted, code, said = json.loads(stage)
assert sys.argv[1] == wanted, f"{sys.argv[1]} was run, not {wanted}"
print(said)
sys.exit(code)
"""
_ALL = ["extract", "normalize", "reconcile", "audit", "publish"]


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.faults.matrix.operator._PAUSE_SECONDS", 0.0)


class Scripted:
    """A lab whose stages do what a script says; the jobs are real processes."""

    def __init__(self, jobs: Jobs, folder: Path, script: list[tuple[str, int, str]]) -> None:
        self.jobs, self.folder = jobs, folder
        (folder / "job.py").write_text(_JOB)
        (folder / "script.jsonl").write_text("".join(json.dumps(line) + "\n" for line in script))

    def stage(self, place: Place, folder: Path, stage: str, _window: int, **_: Any) -> Job:
        return self.jobs.start(place, folder, [str(self.folder / "job.py"), stage])

    def unplayed(self) -> str:
        return (self.folder / "script.jsonl").read_text()


class Waiting(State):
    """Records that an hour passes."""

    def expect_lease(self, _seconds: float) -> None:
        (self.folder / "an hour").touch()


def operator(jobs: Jobs, folder: Path, script: list[tuple[str, int, str]]) -> tuple[Operator, Scripted]:
    lab = Scripted(jobs, folder, script)
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(PROJECT / "include"),
        "CHANGELEDGER_HOME": str(folder),
    }
    who = Operator(lab, Waiting(folder), Place(environment, {}), folder)  # type: ignore[arg-type]
    return who, lab


def said(error: str, remedy: str = "") -> str:
    return f"2026-01-01 ERROR {error}" + (f"\n  Remedy: {remedy}" if remedy else "")


def test_what_fails_is_tried_again(jobs: Jobs, tmp_path: Path) -> None:
    script = [("extract", 75, said("SourceUnavailable: gone", "wait")), ("extract", 1, "Traceback")]
    who, lab = operator(jobs, tmp_path, [*script, *((stage, 0, "") for stage in _ALL)])
    who.carry(2)
    assert lab.unplayed() == ""
    assert [note.split(": ", 1)[1] for note in who.notes] == ["75: SourceUnavailable: gone", "1: Traceback"]


def test_it_is_not_tried_for_ever(jobs: Jobs, tmp_path: Path) -> None:
    who, _ = operator(jobs, tmp_path, [("audit", 1, "Traceback")] * 9)
    with pytest.raises(Defect, match="audit of window 2 fails 4 times: Traceback"):
        who.carry(2, ("audit", "publish"))


def test_a_feed_that_is_held_is_waited_for(jobs: Jobs, tmp_path: Path) -> None:
    held = ("publish", 76, said("LeaseHeld: another", "wait"))
    who, lab = operator(jobs, tmp_path, [held, ("publish", 0, "")])
    who.carry(2, ("publish",))
    assert lab.unplayed() == ""
    assert (tmp_path / "an hour").exists()


def test_nothing_is_left_behind_a_window_that_is_done(jobs: Jobs, tmp_path: Path) -> None:
    who, lab = operator(jobs, tmp_path, [("extract", 77, "")])
    who.carry(2)
    assert lab.unplayed() == ""


@pytest.mark.parametrize(
    ("remedy", "again"),
    [
        ("run it again from normalize: in Airflow clear normalize with what follows it", _ALL[1:]),
        ("run the stages in order: extract, normalize, reconcile, audit, publish", _ALL),
        ("run the audit of the window again: in Airflow clear it with what follows it", _ALL[3:]),
    ],
)
def test_a_remedy_is_followed(jobs: Jobs, tmp_path: Path, remedy: str, again: list[str]) -> None:
    refused = ("publish", 2, said("StageOrderError: no", remedy))
    who, lab = operator(jobs, tmp_path, [refused, *((stage, 0, "") for stage in again)])
    who.carry(2, ("publish",))
    assert lab.unplayed() == ""
    assert who.remedies == 1


def test_a_stop_without_a_remedy_is_a_defect(jobs: Jobs, tmp_path: Path) -> None:
    who, _ = operator(jobs, tmp_path, [("extract", 2, said("ConfigError: what?"))])
    with pytest.raises(Defect, match="without a remedy"):
        who.carry(2)


def test_a_remedy_that_does_not_help_is_a_defect(jobs: Jobs, tmp_path: Path) -> None:
    refused = ("audit", 2, said("AuditFailed: no", "run the audit of the window again"))
    who, _ = operator(jobs, tmp_path, [refused] * 9)
    with pytest.raises(Defect, match="does not help"):
        who.carry(2, ("audit",))


def test_a_gap_ends_the_feed(jobs: Jobs, tmp_path: Path) -> None:
    who, _ = operator(jobs, tmp_path, [("extract", 2, said("SourceDataLostError: gone", "a new feed"))])
    with pytest.raises(Stopped, match=r"SourceDataLostError: gone. Remedy: a new feed"):
        who.carry(2)
