"""A server process as a context manager: started on a free port, ready on enter, gone on exit.

It leaves nothing behind: not on an exception, not on SIGTERM, and on Linux not even when this process is
killed.
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
    """A service cannot run. The text says why and what to do about it."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(f"{message}\n  Remedy: {remedy}")


class TryAgain(Exception):
    """This start failed by an accident, such as a port that was taken between its choice and its use."""


def last_lines(text: str) -> str:
    """What a log ends with, indented, to follow a colon."""
    return "".join(f"\n    {line}" for line in text.splitlines()[-5:])


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def free_ports(count: int) -> tuple[int, ...]:
    """Ports that nobody listens on, no two the same: each is held until all are chosen.

    Raises ServiceError if this machine has no such address.
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
    """Who runs a process, and in which folder; a uid of None is ourselves."""

    folder: Path
    uid: int | None = None
    gid: int | None = None


@dataclass(frozen=True)
class Tls:
    """What a service shows of itself over TLS: files in PEM."""

    # Its key (PKCS 8) and its certificate.
    identity: Path
    # Whose certificates it accepts of clients.
    authority: Path
    # The name under which it is reached, beside 127.0.0.1.
    host: str = "localhost"


class Keystore(NamedTuple):
    """The same for a service of Java's, in PKCS 12: its identity, and the authority that it trusts."""

    identity: Path
    authority: Path
    password: str

    @property
    def trusting(self) -> list[str]:
        """Options of a JVM that trusts this authority alone."""
        trusted = "-Djavax.net.ssl.trustStore"
        return [f"{trusted}={self.authority}", f"{trusted}Password={self.password}"]


class Service(ABC):
    """One process, started on enter and ended on exit."""

    name: str
    # How long it may take to end when it is asked to, before it is killed.
    farewell_seconds = _FAREWELL_SECONDS
    # How the process is asked to end; what it does on SIGTERM may be to wait for its clients.
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
        """Start on a free port and wait until ready. Raises TryAgain after an accident."""
        self.prepare()
        self.run()

    def resume(self) -> None:
        """Start again what has ended, on its ports and with its data. Raises ServiceError."""
        self._stop()
        self._attempt(self.run)

    @abstractmethod
    def prepare(self) -> None:
        """Choose free ports, and make what the process needs, without data. Raises TryAgain."""

    @abstractmethod
    def run(self) -> None:
        """Start the process on what was prepared, and wait until it is ready. Raises TryAgain."""

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def returncode(self) -> int | None:
        """The exit code of a process that has ended; minus the number of the signal that ended it."""
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
        """Remove the data; the log stays."""

    def _end_on_sigterm(self) -> None:
        """Let SIGTERM unwind the `with` blocks, as Ctrl-C does: its default ends Python at once."""
        if _in_main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:

            def leave(number: int, _frame: FrameType | None) -> None:
                raise SystemExit(128 + number)

            self._handler = signal.signal(signal.SIGTERM, leave)

    def launch(self, command: list[str], log: IO[bytes], owner: Owner) -> None:
        """Run `command` in a group of its own, so that Ctrl-C in the terminal does not reach it first."""
        setpriv = shutil.which("setpriv")
        # The kernel sends the signal when this process is gone, however it went. (It takes the thread that
        # calls for the process: enter a service in a thread that lives as long as it.)
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
        """Run `command`, ourselves in the home unless it is said otherwise, until its log has that text."""
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
        """What this attempt has logged so far."""
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
        # Members of the group that outlived its leader.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
