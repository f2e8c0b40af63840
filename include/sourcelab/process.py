"""Runs a server process as a context manager: started on a free port, ready on enter, gone on exit.

Nothing remains after an exception or SIGTERM. On Linux, no process remains even if this one is killed.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import IO, NamedTuple, Self

from changeledger.config.folders import private

_ATTEMPTS = 3
_PATIENCE_SECONDS = 180.0
_FAREWELL_SECONDS = 15.0
_PORT_TAKEN = re.compile(r"Address already in use|BindException|could not bind|Failed to bind", re.IGNORECASE)


class ServiceError(RuntimeError):
    """A service cannot run. The text says why, and what to do about it."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(f"{message}\n  Remedy: {remedy}")


class TryAgain(Exception):
    """A start failed by chance, for example because its port was taken between choice and use."""


def last_lines(text: str) -> str:
    """Returns a log's last lines, indented, to follow a colon."""
    return "".join(f"\n    {line}" for line in text.splitlines()[-5:])


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def free_ports(count: int) -> tuple[int, ...]:
    """Returns distinct ports that nobody listens on. Each is held until all are chosen.

    Raises ServiceError if the machine has no IPv4 loopback address.
    """
    with ExitStack() as held:
        probes = [held.enter_context(socket.socket()) for _ in range(count)]
        try:
            for probe in probes:
                probe.bind(("127.0.0.1", 0))
        except OSError as error:
            raise ServiceError(
                f"no port of 127.0.0.1 can be had: {error.strerror}",
                "give the loopback interface its IPv4 address, for IPv6 alone is not enough: "
                "ip link set lo up; ip addr add 127.0.0.1/8 dev lo",
            ) from None
        return tuple(int(probe.getsockname()[1]) for probe in probes)


def free_port() -> int:
    return free_ports(1)[0]


@dataclass(frozen=True)
class Owner:
    """Who runs a process, and in which folder. A uid of None means the current user."""

    folder: Path
    uid: int | None = None
    gid: int | None = None


@dataclass(frozen=True)
class Tls:
    """What a service presents over TLS: files in PEM."""

    # Its key (PKCS 8) and its certificate.
    identity: Path
    # The authority whose client certificates it accepts.
    authority: Path
    # The name under which it is reached, besides 127.0.0.1.
    host: str = "localhost"


class Keystore(NamedTuple):
    """The identity of a Java service and the authority that it trusts, both in PKCS 12."""

    identity: Path
    authority: Path
    password: str

    @property
    def trusting(self) -> list[str]:
        """JVM options that trust only this authority."""
        trusted = "-Djavax.net.ssl.trustStore"
        return [f"{trusted}={self.authority}", f"{trusted}Password={self.password}"]


class Service(ABC):
    """One process, started on enter and ended on exit."""

    name: str
    # Seconds that the process may take to end before it is killed.
    farewell_seconds = _FAREWELL_SECONDS
    # The signal that asks it to end. SIGTERM may make a server wait for its clients.
    farewell = signal.SIGTERM

    def __init__(self, home: Path) -> None:
        self.home = home.absolute() / self.name
        self.log = self.home / f"{self.name}.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._handler: Callable[[int, FrameType | None], object] | int | None = None

    def __enter__(self) -> Self:
        private(self.home)
        self._end_on_sigterm()
        try:
            self._attempt(self.start)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._stop()
        finally:
            self.clean()
            if self._handler is not None and _in_main_thread():
                signal.signal(signal.SIGTERM, self._handler)
                self._handler = None

    def start(self) -> None:
        """Starts on a free port and waits until ready. Raises TryAgain after a failure by chance."""
        self.prepare()
        self.run()

    def resume(self) -> None:
        """Restarts an ended process on its ports and with its data. Raises ServiceError."""
        self._stop()
        self._attempt(self.run)

    @abstractmethod
    def prepare(self) -> None:
        """Chooses free ports and creates what the process needs, without data. Raises TryAgain."""

    @abstractmethod
    def run(self) -> None:
        """Starts the prepared process and waits until it is ready. Raises TryAgain."""

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def returncode(self) -> int | None:
        """The exit code of an ended process; the negative signal number if a signal ended it."""
        return None if self._process is None else self._process.poll()

    def _attempt(self, start: Callable[[], None]) -> None:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                start()
                return
            except TryAgain as error:
                self._stop()
                if attempt == _ATTEMPTS:
                    raise ServiceError(
                        f"{self.name} did not start in {_ATTEMPTS} attempts: {error}",
                        f"read {self.log}, end the programs that take ports on 127.0.0.1, and try again",
                    ) from error

    @abstractmethod
    def clean(self) -> None:
        """Removes the data; the log stays."""

    def _end_on_sigterm(self) -> None:
        """Makes SIGTERM unwind the `with` blocks, as Ctrl-C does; by default it would end Python at once."""
        if _in_main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:

            def leave(number: int, _frame: FrameType | None) -> None:
                raise SystemExit(128 + number)

            self._handler = signal.signal(signal.SIGTERM, leave)

    def launch(self, command: list[str], log: IO[bytes], owner: Owner) -> None:
        """Runs `command` in its own process group, so that Ctrl-C in the terminal does not reach it first."""
        setpriv = shutil.which("setpriv")
        # The kernel sends the signal when this process has ended in any way. It regards the calling thread as
        # the process: enter a service in a thread that lives as long as the service.
        orphanless = [setpriv, "--pdeathsig", self.farewell.name[3:]] if setpriv else []
        self._process = subprocess.Popen(
            [*orphanless, *command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=owner.folder,
            start_new_session=True,
            user=owner.uid,
            group=owner.gid,
            extra_groups=None if owner.uid is None else [],
        )

    def launch_until(self, says: str, command: list[str], owner: Owner | None = None) -> None:
        """Starts `command`, and waits until its log has the text. `owner`: the current user by default."""
        with self.log.open("ab") as log:
            log_from = log.tell()
            self.launch(command, log, owner or Owner(self.home))
        self.wait_until(lambda: says in self.logged(log_from), log_from)

    def wait_until(self, ready: Callable[[], bool], log_from: int) -> None:
        assert self._process is not None
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not ready():
            if self._process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.05)
                continue
            text = self.logged(log_from)
            if _PORT_TAKEN.search(text):
                raise TryAgain("its port was taken")
            what = "ended" if self._process.poll() is not None else f"took over {_PATIENCE_SECONDS:.0f} s"
            raise ServiceError(f"{self.name} {what} while starting:{last_lines(text)}", f"read {self.log}")

    def logged(self, log_from: int) -> str:
        """Returns what this attempt has logged so far."""
        with self.log.open("rb") as log:
            log.seek(log_from)
            return log.read().decode("utf-8", "replace")

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        for number in (self.farewell, signal.SIGQUIT, signal.SIGKILL):
            if process.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, number)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(self.farewell_seconds)
        # Kills group members that outlived the leader.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
