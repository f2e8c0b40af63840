"""Which process holds a lease, so that one on the same machine can tell whether it still runs."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Final
from uuid import uuid4

_BY_PROCESS: Final = " (process "


def this_process() -> str:
    """A name that no other process has, with what `is_gone` asks for."""
    return " ".join((uuid4().hex, *_machine(), str(os.getpid()), _started(os.getpid()) or "?"))


def holder_here(work: str) -> str:
    """This process as the holder of a lease that nobody takes over from it while it runs."""
    return f"{work}{_BY_PROCESS}{os.getpid()} on {socket.gethostname()})"


def has_ended_with(holder: str, process: str) -> bool:
    """Did the lease end with its process? That of a run, or of what is given again, goes on without it."""
    return _BY_PROCESS in holder and _is_gone(process)


def _is_gone(process: str) -> bool:
    """False where nobody knows: for a process of another machine, or of another container."""
    _, *machine, number, started = process.rsplit(" ", 4) if process.count(" ") >= 4 else ("", "", "")
    if tuple(machine) != _machine() or started == "?":
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        # It may be hidden from this user.
        return False
    return _started(int(number)) != started


def _machine() -> tuple[str, str]:
    """Its name, and where its process numbers count: those of a container are its own."""
    try:
        return socket.gethostname(), str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return socket.gethostname(), "?"


def _started(number: int) -> str | None:
    """When the process has begun, for its number is given again; None if it runs no more, or nobody knows."""
    try:
        state, *rest = Path(f"/proc/{number}/stat").read_text("utf-8").rpartition(")")[2].split()
    except OSError:
        return None
    # A zombie has ended, and nobody has asked how.
    return None if state == "Z" else rest[18]
