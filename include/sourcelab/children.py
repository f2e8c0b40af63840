"""Programs that run beside the services, log to a file, and are ended with all their descendants."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil  # type: ignore[import-untyped]

from changeledger.config.folders import private

_FAREWELL_SECONDS = 5.0
_LAST_LINES = 25


class ChildFailed(RuntimeError):
    """A program failed. The text has its log's path and last lines."""


class Child:
    """A program that starts on enter. On exit it ends with all its descendants, even those in other sessions,
    such as Airflow's tasks."""

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self.name = name
        self.command = [*_orphanless(), *command]
        self.environment = dict(environment)
        self.log = log
        self.started = 0.0
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        private(self.log.parent)
        self.log.unlink(missing_ok=True)
        self.started = time.monotonic()
        self._begin()
        return self

    def restart(self) -> None:
        """Starts the program again after it has ended, and appends to its log."""
        self.__exit__(None, None, None)
        self._begin()

    def _begin(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self.environment,
                # Ctrl-C in the terminal reaches this process first, which then ends the program.
                start_new_session=True,
            )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        end_together([self])
        self._process.wait()

    def kill(self) -> None:
        """Kills the program and all its descendants at once, as a power loss would."""
        kill_all(self.tree())

    def tree(self) -> list[psutil.Process]:
        """Returns the process and all its descendants, or an empty list if it has ended."""
        assert self._process is not None
        with suppress(psutil.NoSuchProcess):
            return tree_of(self._process.pid) if self.running else []
        return []

    @property
    def running(self) -> bool:
        return self.returncode is None

    @property
    def returncode(self) -> int | None:
        """None while it runs; the negative signal number if a signal ended it."""
        assert self._process is not None
        return self._process.poll()

    @property
    def failed(self) -> bool:
        return self.returncode not in {None, 0}

    @property
    def failure(self) -> str:
        """What to show of a failure: the exit code and the last lines of the log."""
        lines = self.log.read_text("utf-8", "replace").splitlines()[-_LAST_LINES:]
        return "\n    ".join([f"{self.name} ended with code {self.returncode}; {self.log}:", *lines])

    def wait(self) -> None:
        """Waits for the end. Raises ChildFailed unless the exit code is 0."""
        assert self._process is not None
        if self._process.wait():
            raise ChildFailed(self.failure)


def require_running(parts: Sequence[Child]) -> None:
    """Raises ChildFailed if any of the programs has ended."""
    for part in parts:
        if not part.running:
            raise ChildFailed(part.failure)


def _orphanless() -> list[str]:
    """Returns the prefix by which the kernel ends the program when this process dies, as for the services."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "TERM"] if setpriv else []


def tree_of(pid: int) -> list[psutil.Process]:
    """Returns the process and all its descendants."""
    root = psutil.Process(pid)
    return [root, *root.children(recursive=True)]


def kill_all(processes: Sequence[psutil.Process]) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    # A process that nobody reaps, as in a container without an init, remains a zombie forever.
    psutil.wait_procs(processes, timeout=_FAREWELL_SECONDS)


def end_together(parts: Sequence[Child]) -> None:
    """Ends programs with all their descendants. All end at once: one after the other would take longer."""
    processes = [process for part in parts for process in part.tree()]
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.terminate()
    _, alive = psutil.wait_procs(processes, timeout=_FAREWELL_SECONDS)
    kill_all(alive)
