"""The operator after a fault: Airflow, which retries, and a person, who follows a remedy."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from changeledger import exit_codes
from changeledger.model.window import STAGES
from tests.faults.matrix.jobs import Job, Place
from tests.faults.matrix.lab import FEED, Lab, State
from tests.faults.matrix.stores import Stores

_PAUSE_SECONDS = 1.0
_ERROR = re.compile(r"ERROR (\w+): (.*)")
_REMEDY = re.compile(r"Remedy: (.*)")
# Tries of a task by Airflow, waits for a feed that is held, and remedies that are followed.
_TRIES, _WAITS, _REMEDIES = 4, 240, 4


class Defect(Exception):
    """Something that must not happen: a wrong table, or no way to go on."""


class Stopped(Exception):
    """An error that no retry can fix; its remedy begins with another feed."""

    def __init__(self, error: str, remedy: str) -> None:
        super().__init__(f"{error}. Remedy: {remedy}")


@dataclass
class Operator:
    """Carries windows to their release, and notes what it met on the way."""

    lab: Lab
    state: State
    place: Place
    folder: Path
    at_once: int = 1
    notes: list[str] = field(default_factory=list)
    remedies: int = 0
    # Stores in PostgreSQL, in place of the state's.
    stores: Stores | None = None

    def carry(self, window: int, stages: Sequence[str] = STAGES, *, waits: bool = False) -> None:
        """Runs the window's stages, each until it is done. `waits`: for other runs, whose leases it keeps."""
        remaining = list(stages)
        while remaining:
            remaining = self._stage(window, remaining, waits)

    def _stage(self, window: int, remaining: list[str], waits: bool) -> list[str]:
        """Runs the first stage, and returns the remaining ones."""
        tries = 0
        for _ in range(_WAITS):
            at = self.place, self.folder, remaining[0], window
            job = self.lab.stage(*at, at_once=self.at_once)
            code = job.wait()
            if code == 0:
                return remaining[1:]
            if code == exit_codes.NOTHING:
                return []
            self._note(job, code)
            if code == exit_codes.HELD:
                self._wait(waits)
            elif code == exit_codes.FINAL:
                return self._follow(job, remaining)
            else:
                tries += 1
                if tries == _TRIES:
                    raise Defect(f"{remaining[0]} of window {window} fails {tries} times: {last_error(job)}")
                time.sleep(_PAUSE_SECONDS)
        raise Defect(f"{remaining[0]} of window {window} waits for ever: {self.notes[-1]}")

    def _wait(self, waits: bool) -> None:
        if waits:
            time.sleep(_PAUSE_SECONDS)
        else:
            self.let_an_hour_pass()

    def let_an_hour_pass(self) -> None:
        """Ends the lease of whoever holds the feed and gave no sign."""
        (self.stores or self.state).expect_lease(-1)

    def _follow(self, job: Job, remaining: list[str]) -> list[str]:
        """Follows the remedy, and returns the stages to run."""
        error, remedy = last_error(job), last_remedy(job)
        self.remedies += 1
        if not remedy:
            raise Defect(f"{remaining[0]} stops without a remedy: {error}")
        if error.startswith("SourceDataLostError"):
            raise Stopped(error, remedy)
        if self.remedies > _REMEDIES:
            raise Defect(f"its remedy does not help: {error}. Remedy: {remedy}")
        if "release complete" in remedy:
            self.command("release", "complete", FEED, *(["--force"] if "--force" in remedy else []))
            return remaining
        if "normalize" in remedy and "extract" not in remedy:
            return list(STAGES[1:])
        if "run the audit" in remedy:
            return list(STAGES[3:])
        if "run the window again" in remedy or "in order" in remedy or "clear extract" in remedy:
            return list(STAGES)
        raise Defect(f"nobody knows what this remedy asks for: {error}. Remedy: {remedy}")

    def command(self, *arguments: str) -> Job:
        """Runs `changeledger` with these arguments to its end."""
        job = self.lab.jobs.start(self.place, self.folder, ["changeledger.cli", *arguments])
        code = job.wait()
        if code != 0:
            self._note(job, code)
        return job

    def backfills(self, windows: Sequence[int]) -> None:
        """Carries the windows all at once; each waits for the others."""
        self.let_an_hour_pass()
        failed: list[BaseException] = []

        def carry(window: int) -> None:
            try:
                self.carry(window, waits=True)
            except BaseException as error:  # noqa: BLE001 - raised below
                failed.append(error)

        threads = [threading.Thread(target=carry, args=(window,)) for window in windows]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failed:
            raise failed[0]

    def _note(self, job: Job, code: int) -> None:
        self.notes.append(f"{job.name}: {code}: {last_error(job)[:300]}")


def last_error(job: Job) -> str:
    """Returns the job's last error, or its last line if no known error is there."""
    errors: list[Any] = _ERROR.findall(job.printed)
    if errors:
        return ": ".join(errors[-1])
    lines = [line for line in job.printed.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "it says nothing"


def last_remedy(job: Job) -> str:
    remedies = _REMEDY.findall(job.printed)
    return remedies[-1] if remedies else ""
