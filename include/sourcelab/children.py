"""Programs that run beside the services, quietly into a log, and are ended with all that they started."""

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
    """A program ended badly. The text has the last lines of its log and the log's path."""


class Child:
    """A program started on enter. What it starts in sessions of its own, as Airflow's tasks do, ends too."""

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
        """Once it has ended; its log goes on."""
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
                # Ctrl-C in the terminal reaches us first, and we end it.
                start_new_session=True,
            )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        end_together([self])
        self._process.wait()

    def kill(self) -> None:
        """As a machine does that loses its power: it and all that it has started."""
        kill_all(self.tree())

    def tree(self) -> list[psutil.Process]:
        """Itself, and all that it has started; nothing where it has ended."""
        assert self._process is not None
        with suppress(psutil.NoSuchProcess):
            return tree_of(self._process.pid) if self.running else []
        return []

    @property
    def running(self) -> bool:
        assert self._process is not None
        return self._process.poll() is None

    @property
    def returncode(self) -> int | None:
        """None while it runs; minus the number of the signal that ended it."""
        assert self._process is not None
        return self._process.poll()

    @property
    def failed(self) -> bool:
        assert self._process is not None
        return self._process.poll() not in {None, 0}

    @property
    def failure(self) -> str:
        """What to show: the code and the last lines of the log."""
        assert self._process is not None
        lines = self.log.read_text("utf-8", "replace").splitlines()[-_LAST_LINES:]
        return "\n    ".join([f"{self.name} ended with code {self._process.returncode}; {self.log}:", *lines])

    def wait(self) -> None:
        """Raises ChildFailed unless it ends well."""
        assert self._process is not None
        if self._process.wait():
            raise ChildFailed(self.failure)


def require_running(parts: Sequence[Child]) -> None:
    """Raises ChildFailed if one has ended."""
    for part in parts:
        if not part.running:
            raise ChildFailed(part.failure)


def _orphanless() -> list[str]:
    """As for the services: the kernel ends it with this process, however that went."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "TERM"] if setpriv else []


def tree_of(pid: int) -> list[psutil.Process]:
    """The process, and all that it has started."""
    root = psutil.Process(pid)
    return [root, *root.children(recursive=True)]


def kill_all(processes: Sequence[psutil.Process]) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    # One that nobody reaps, as in a container without an init, stays as a zombie for ever.
    psutil.wait_procs(processes, timeout=_FAREWELL_SECONDS)


def end_together(parts: Sequence[Child]) -> None:
    """End programs with all that they have started, all at once: one after the other they take longer."""
    processes = [process for part in parts for process in part.tree()]
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.terminate()
    _, alive = psutil.wait_procs(processes, timeout=_FAREWELL_SECONDS)
    for process in alive:
        with suppress(psutil.NoSuchProcess):
            process.kill()
