"""Jobs as processes: started, waited for, stopped and resumed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from changeledger.config.settings import PROJECT
from tests.faults.matrix.effects import Fault
from tests.faults.matrix.job import IMPORTED

# A stage of a few rows takes seconds, but a shared machine may be slow.
PATIENCE_SECONDS = 240.0


class Hangs(Exception):
    """A job has not ended in time."""


@dataclass
class Job:
    """A process that runs or has ended. `code` is None while it runs, and negative for a signal."""

    name: str
    log: Path
    effects: Path
    pid: int = 0
    code: int | None = None
    changed: threading.Condition = field(default_factory=threading.Condition)

    def wait(self, seconds: float = PATIENCE_SECONDS) -> int:
        with self.changed:
            if not self.changed.wait_for(lambda: self.code is not None, seconds):
                raise Hangs(f"{self.name} has not ended after {seconds:.0f} s")
        assert self.code is not None
        return self.code

    def await_meeting(self) -> bool:
        """Returns True once the job reaches its `meet` or `stop`, and False if it ends before."""
        for _ in range(int(PATIENCE_SECONDS * 20)):
            if self.code is not None:
                return False
            if self.effects.with_suffix(".here").exists() or self._is_stopped():
                return True
            time.sleep(0.05)
        raise Hangs(f"{self.name} has not come to its fault after {PATIENCE_SECONDS:.0f} s")

    def go_on(self) -> None:
        self.effects.with_suffix(".go").touch()
        self.signal(signal.SIGCONT)

    def signal(self, number: int) -> None:
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return

    def _is_stopped(self) -> bool:
        try:
            return Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T"
        except OSError:
            return False

    @property
    def printed(self) -> str:
        return self.log.read_text("utf-8", "replace") if self.log.exists() else ""

    def written(self) -> list[dict[str, Any]]:
        """Returns the job's external effects, in order."""
        if not self.effects.exists():
            return []
        return [json.loads(line) for line in self.effects.read_text().splitlines()]


class Place(NamedTuple):
    """Where a job works: the environment that its worker gives it, and Spark's settings of the catalog."""

    environment: Mapping[str, str]
    catalog: Mapping[str, str]


class Jobs:
    """Starts jobs; see `job`."""

    def __init__(self, log: Path, imported: Sequence[str] = IMPORTED) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(PROJECT / "include"), str(PROJECT)])}
        environment.pop("SPARK_REMOTE", None)
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.faults.matrix.job", *imported], env=environment, cwd=PROJECT,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
            )  # fmt: skip
        self._jobs: dict[str, Job] = {}
        self._count = 0
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def start(
        self,
        place: Place,
        folder: Path,
        command: list[str],
        fault: Fault | None = None,
        *,
        clock: float = 0,
        at_once: int = 1,
    ) -> Job:
        self._count += 1
        name = f"{self._count:05d}-{Path(command[0]).stem}"
        job = Job(name, folder / f"{name}.log", folder / f"{name}.effects")
        self._jobs[name] = job
        spec = {
            "id": name,
            "command": command,
            "environment": dict(place.environment),
            "log": str(job.log),
            "effects": str(job.effects),
            "fault": fault._asdict() if fault else None,
            "catalog": dict(place.catalog),
            "at_once": at_once,
            "clock": clock,
        }
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(spec) + "\n")
        self._process.stdin.flush()
        with job.changed:
            # The first job waits for all imports.
            if not job.changed.wait_for(lambda: job.pid, PATIENCE_SECONDS):
                raise Hangs(f"{name} does not start")
        return job

    def end_all(self) -> None:
        """Kills all running jobs, so that nothing of a cell continues in the next."""
        for job in self._jobs.values():
            if job.pid and job.code is None:
                job.signal(signal.SIGKILL)
                job.wait(10)

    def close(self) -> None:
        self.end_all()
        self._process.kill()
        self._process.wait(10)
        self._listener.join(10)
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            reported = json.loads(line)
            job = self._jobs[reported["id"]]
            with job.changed:
                job.pid = reported.get("pid", job.pid)
                job.code = reported.get("code", job.code)
                job.changed.notify_all()
