"""Runs each subject of the benchmarks in its own cold process, measures it, and judges its rows."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from benchmarks.cluster import cluster
from benchmarks.environments import python_of
from benchmarks.judge import Wrong, judged
from benchmarks.meter import Measured, measured
from benchmarks.shapes import PLAIN, Shape
from benchmarks.stream import Stream, stream
from benchmarks.topics import fill
from changeledger.config.settings import PROJECT
from sourcelab.services import KafkaBroker

CACHE = PROJECT / ".cache" / "benchmarks"
HOME = PROJECT / ".changeledger" / "bench"


@dataclass(frozen=True)
class Result:
    """The result of one try. `wrong` is None for a subject that publishes nothing."""

    measured: Measured
    wrong: Wrong | None = None


@dataclass
class Bench:
    """Runs subjects with one broker, each in its own folder. Each `Result` comes from one try."""

    _services: ExitStack = field(default_factory=ExitStack)
    _topics: set[str] = field(default_factory=set)
    _tries: int = 0

    def __enter__(self) -> Self:
        shutil.rmtree(HOME, ignore_errors=True)
        HOME.mkdir(parents=True)
        self._kafka = self._services.enter_context(KafkaBroker(PROJECT / ".jars" / "kafka", HOME / "broker"))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._services.close()

    def line(
        self, messages: int, windows: int = 1, tables: int = 1, workers: int = 0, shape: Shape = PLAIN
    ) -> Result:
        """Runs the stages of the line. `messages`: the number of messages of each table.

        `workers`: the workers of a standalone cluster, with one core each; with 0, Spark runs on all cores in
        the subject's process.
        """
        streams, topics = self._filled(messages, windows, tables, shape)
        arguments = ("line", self._kafka.bootstrap, topics, str(windows), shape.name)
        return self._run(arguments, streams[0], workers=workers)

    def by_hand(
        self, messages: int, windows: int = 1, tables: int = 1, *, history: bool = True, shape: Shape = PLAIN
    ) -> Result:
        """Runs the line written by hand. `messages`: the number of messages of each table."""
        streams, topics = self._filled(messages, windows, tables, shape)
        options = () if history else ("--no-history",)
        arguments = ("by_hand", self._kafka.bootstrap, topics, str(windows), shape.name)
        return self._run(arguments, streams[0], options=options)

    def floor(self, messages: int) -> Result:
        return self._run(("floor", str(self.stream(messages).messages)))

    def duckdb(self, messages: int, *, history: bool = False) -> Result:
        truth, options = self.stream(messages), ("--history",) if history else ()
        return self._run(("duck", str(truth.messages)), truth, "duckdb", options)

    def dlt(self, messages: int) -> Result:
        truth = self.stream(messages)
        return self._run(("load", str(truth.messages)), truth, "dlt")

    def commands(self) -> Result:
        return self._run(("commands", self._kafka.bootstrap), in_home=True)

    def dialects(self, transactions: int, *, prove: bool = False) -> Result:
        options = ("--prove",) if prove else ()
        return self._run(("dialects", str(transactions)), in_home=True, options=options)

    def large_table(self, rows: int, *, by_hand: bool = False) -> Result:
        subject = "large_table_by_hand" if by_hand else "large_table"
        return self._run((subject, self._kafka.bootstrap, str(rows)), in_home=True)

    def make(self, what: str) -> Result:
        """Runs `make demo` or `make test` after installing what it needs."""
        subprocess.run(["make", f"setup-{what}"], cwd=PROJECT, check=True)  # noqa: S607 - whichever make has called this
        measurement = measured(["make", what], HOME / f"make-{what}.log", whole=f"make {what}")
        return Result(measurement)

    def stream(self, messages: int, at: int = 0, shape: Shape = PLAIN) -> Stream:
        return stream(CACHE / "streams", messages, _table(at), 1 + at, shape)

    def _filled(self, messages: int, windows: int, tables: int, shape: Shape) -> tuple[Sequence[Stream], str]:
        """Returns the streams, and the names of their topics."""
        streams = [self.stream(messages, at, shape) for at in range(tables)]
        return streams, ",".join(self._topic(table, windows, at) for at, table in enumerate(streams))

    def _topic(self, of: Stream, windows: int, at: int) -> str:
        """Returns the stream's topic, filled once. Each size of stream has its own server name."""
        topic = f"{of.folder.name}_{windows}.dbo.{_table(at)}"
        if topic not in self._topics:
            fill(self._kafka.bootstrap, topic, of.messages, windows)
            self._topics.add(topic)
        return topic

    def _run(  # noqa: PLR0913 - what a try differs in
        self,
        arguments: Sequence[str],
        truth: Stream | None = None,
        environment: str | None = None,
        options: Sequence[str] = (),
        *,
        in_home: bool = False,
        workers: int = 0,
    ) -> Result:
        """Runs one try.

        - `truth`: the stream, for a subject that takes a folder for what it publishes.
        - `in_home`: whether the subject takes its home folder.
        """
        self._tries += 1
        home = HOME / f"{self._tries}-{arguments[0]}"
        out = () if truth is None else (str(home / "out"),)
        out = (str(home),) if in_home else out
        python = sys.executable if environment is None else python_of(environment, CACHE)
        home.mkdir()
        paths = [PROJECT] if environment else [PROJECT, PROJECT / "include"]
        env = {"CHANGELEDGER_HOME": str(home), "PYTHONPATH": ":".join(map(str, paths))}
        module = f"benchmarks.subjects.{arguments[0]}"
        command, log = [python, "-m", module, *arguments[1:], *out, *options], HOME / f"{home.name}.log"
        with cluster(home, workers) as remote:
            measurement = measured(command, log, {**env, **remote})
        result = Result(measurement, None if truth is None else judged(home / "out", truth))
        shutil.rmtree(home)
        return result


def _table(at: int) -> str:
    return f"t{at}" if at else "t"
