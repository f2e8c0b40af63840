"""Measures a process and its descendants: wall and CPU seconds between its marks, and peaks of memory.

The process writes a mark as a line on its standard output (`marks.mark`) and waits for an answer. So the
usage until the mark is read while the process stands still.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.marks import SIGN

_TICKS = os.sysconf("SC_CLK_TCK")
_SAMPLE_SECONDS = 0.5
# Kinds of processes that use CPU: the process itself, its JVM, and Python below the JVM (Spark's workers).
DRIVER, JVM, WORKERS = "driver", "jvm", "workers"


class BenchmarkError(Exception):
    """A measured process failed."""


@dataclass(frozen=True)
class Span:
    """The time between two marks. `cpu`: seconds by kind of process."""

    name: str
    wall: float
    cpu: Mapping[str, float]

    @property
    def cpu_seconds(self) -> float:
        return sum(self.cpu.values())


@dataclass
class Measured:
    """The spans of one process, and the peak resident memory in MiB of the largest process of each kind."""

    spans: list[Span] = field(default_factory=list)
    peaks: dict[str, float] = field(default_factory=dict)

    def wall(self, *names: str) -> float:
        return sum(span.wall for span in self._of(names))

    def cpu(self, *names: str) -> float:
        return sum(span.cpu_seconds for span in self._of(names))

    def _of(self, names: Sequence[str]) -> Iterator[Span]:
        return (span for span in self.spans if not names or span.name in names)


def measured(
    command: Sequence[str], log: Path, env: Mapping[str, str] | None = None, whole: str | None = None
) -> Measured:
    """Runs the command to its end and measures it to its last mark.

    `whole` names the single span of a command that makes no marks. Raises BenchmarkError if the command
    fails.
    """
    measurement = Measured()
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
            env={**os.environ, **(env or {})},
        ) as process,
    ):  # fmt: skip
        assert process.stdout is not None, "it has a pipe"
        assert process.stdin is not None, "it has a pipe"
        over = threading.Event()
        sampling = threading.Thread(target=_sample, args=(process.pid, measurement.peaks, over))
        sampling.start()
        began, used = time.monotonic(), dict.fromkeys((DRIVER, JVM, WORKERS), 0.0)
        for line in process.stdout:
            if not line.startswith(SIGN):
                continue
            now, usage = time.monotonic(), cpu_seconds(process.pid)
            spent = {kind: seconds - used[kind] for kind, seconds in usage.items()}
            measurement.spans.append(Span(line[len(SIGN) :].strip(), now - began, spent))
            process.stdin.write("\n")
            process.stdin.flush()
            began, used = time.monotonic(), usage
        over.set()
        sampling.join()
        if whole is not None:
            # The processes have ended, and their CPU seconds with them: only the wall clock counts.
            measurement.spans.append(Span(whole, time.monotonic() - began, {}))
    if process.returncode:
        raise BenchmarkError(f"{' '.join(command)} ended with {process.returncode}: see {log}")
    return measurement


def cpu_seconds(root: int) -> dict[str, float]:
    """Returns CPU seconds by kind, of the process and its descendants, including those that have ended."""
    by_kind = dict.fromkeys((DRIVER, JVM, WORKERS), 0.0)
    for kind, _, seconds in _tree(root):
        by_kind[kind] += seconds
    return by_kind


def _sample(root: int, peaks: dict[str, float], over: threading.Event) -> None:
    while not over.wait(_SAMPLE_SECONDS):
        for kind, pid, _ in _tree(root):
            peaks[kind] = max(peaks.get(kind, 0.0), _peak(pid))


def _tree(root: int) -> Iterator[tuple[str, int, float]]:
    """Yields kind, process id and CPU seconds of the process and all its descendants."""
    processes = dict(_processes())
    children: dict[int, list[int]] = {}
    for pid, (parent, _, _) in processes.items():
        children.setdefault(parent, []).append(pid)
    waiting = [(root, DRIVER)]
    while waiting:
        pid, kind = waiting.pop()
        if pid not in processes:
            continue
        _, name, seconds = processes[pid]
        kind = JVM if name == "java" else kind
        yield kind, pid, seconds
        waiting += [(child, WORKERS if kind == JVM else kind) for child in children.get(pid, ())]


def _processes() -> Iterator[tuple[int, tuple[int, str, float]]]:
    for entry in os.listdir("/proc"):  # noqa: PTH208 - hundreds of times
        if not entry.isdigit():
            continue
        try:
            text = Path(f"/proc/{entry}/stat").read_text("utf-8")
        except OSError:
            continue
        name, _, fields = text.partition("(")[2].rpartition(")")
        parts = fields.split()
        # After the name: state, parent, ...; then user and system time, own and of children waited for.
        yield int(entry), (int(parts[1]), name, sum(map(int, parts[11:15])) / _TICKS)


def _peak(pid: int) -> float:
    """Returns the peak resident memory of a process in MiB, or 0.0 if it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text("utf-8")
    except OSError:
        return 0.0
    lines = (line.split() for line in status.splitlines())
    return next((int(line[1]) / 1024 for line in lines if line and line[0] == "VmHWM:"), 0.0)
