"""Reports programs that ended unexpectedly before they are restarted, but not forever."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable
from pathlib import Path

from sourcelab.process import ServiceError, last_lines

# A program that ended this often in this many seconds is not restarted.
_MOST, _SECONDS = 4, 300.0


class Losses:
    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._times: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=_MOST))

    def note(self, name: str, returncode: int | None, log: Path) -> None:
        """Reports that a program ended. Raises ServiceError instead if it has ended too often."""
        times, now = self._times[name], time.monotonic()
        times.append(now)
        if len(times) == _MOST and now - times[0] < _SECONDS:
            text = last_lines(log.read_text("utf-8", "replace"))
            raise ServiceError(
                f"{name} has ended {_MOST} times in {now - times[0]:.0f} s:{text}", f"read {log}"
            )
        self._say(f"{name} has ended with code {returncode}, see {log}; it is started again")
