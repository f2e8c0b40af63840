"""Names the process that holds a lease, so that others on its machine can tell whether it still runs."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Final
from uuid import uuid4

_BY_PROCESS: Final = " (process "


def this_process() -> str:
    """Returns a unique name of this process, from which `_is_gone` can find it."""
    return " ".join((uuid4().hex, *_machine(), str(os.getpid()), _started(os.getpid()) or "?"))


def holder_here(work: str) -> str:
    """Names this process as the holder of a lease that no other process takes over while it runs."""
    return f"{work}{_BY_PROCESS}{os.getpid()} on {socket.gethostname()})"


def has_ended_with(holder: str, process: str) -> bool:
    """Returns whether the lease ended with its process.

    The lease of a run, or of work that may be repeated, outlives its process.
    """
    return _BY_PROCESS in holder and _is_gone(process)


def _is_gone(process: str) -> bool:
    """Returns whether the process has ended. False if unknown: on another machine or in another container."""
    _, *machine, number, started = process.rsplit(" ", 4) if process.count(" ") >= 4 else ("", "", "")
    if tuple(machine) != _machine() or started == "?":
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        # The process may be hidden from this user.
        return False
    return _started(int(number)) != started


def _machine() -> tuple[str, str]:
    """Returns the host name and the namespace of process ids, since a container has its own ids."""
    try:
        return socket.gethostname(), str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return socket.gethostname(), "?"


def _started(number: int) -> str | None:
    """Returns when the process began, since ids are reused; None if it has ended or that is unknown."""
    try:
        state, *rest = Path(f"/proc/{number}/stat").read_text("utf-8").rpartition(")")[2].split()
    except OSError:
        return None
    # A zombie has ended, but its parent has not collected its exit code.
    return None if state == "Z" else rest[18]
