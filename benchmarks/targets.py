"""The targets, and how each is computed from the measurements."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import NamedTuple

from benchmarks.figures import Figures
from benchmarks.meter import DRIVER, JVM, WORKERS

_LINE, _BY_HAND = "line", "Spark by hand with SCD 2"
_TEN, _FIVE = "line, ten windows", "line, five times the messages"
_FIVE_BY_HAND = "Spark by hand with SCD 2, five times the messages"
_NULLS, _NULLS_BY_HAND = "line, NULLs", "Spark by hand with SCD 2, NULLs"
_TEN_BY_HAND = "Spark by hand with SCD 2, ten windows"
_COMMANDS = "commands and idle windows"
_PROVED = "five feeds, compare and verify"
_SMALL = "line, 4 tables x 50 changes, three windows"
_MANY = "line, 40 tables x 50 changes, three windows"
_MANY_BY_HAND = "Spark by hand with SCD 2, 40 tables x 50 changes, three windows"
STAGES = ("extract", "normalize", "reconcile", "audit", "publish")


class Target(NamedTuple):
    """A target. `reached` computes the figure from the subjects named in `of`; it must not exceed `aim`.

    `why` says where the time goes, as profiles have shown; it is printed if the target is missed.
    """

    what: str
    aim: float
    unit: str
    of: tuple[str, ...]
    reached: Callable[..., float]
    why: str = ""

    @property
    def aim_text(self) -> str:
        return f"<= {self.aim:g} {self.unit}"


def _times(figures: Figures, other: Figures) -> float:
    return figures.wall() / other.wall()


def _times_cpu(figures: Figures, other: Figures) -> float:
    return figures.cpu() / other.cpu()


def _last_window(unit: str) -> Callable[[Figures], float]:
    """Returns the time of the last of three windows, in a warm engine."""

    def reached(figures: Figures) -> float:
        spans = (result.measured.spans[-len(STAGES) :] for result in figures.results)
        return median(sum(s.wall if unit == "s" else s.cpu_seconds for s in last) for last in spans)

    return reached


def _wrong(figures: Figures) -> float:
    wrong = figures.wrong
    assert wrong is not None, "the line publishes rows"
    return wrong.rows + (wrong.versions or 0)


def _gibibytes(figures: Figures) -> float:
    return max(figures.peak(kind) for kind in (DRIVER, JVM, WORKERS)) / 1024


def _slowest_dialect(figures: Figures) -> float:
    of = {name: figures.wall(name) for name in figures.spans if name.startswith("normalize ")}
    return max(of.values()) / of["normalize debezium"]


def _window(which: str) -> Callable[[Figures], float]:
    return lambda figures: figures.wall(*(f"{stage} {which}" for stage in STAGES))


def _hour(of: Figures) -> float:
    return of.cpu(*(span for span in of.spans if span.startswith("hour: ")))


_LARGE, _LARGE_BY_HAND = "10,000 updates into 10 M rows", "10,000 updates into 10 M rows, by hand"
_AUDITED = "the line also writes a ledger with both images, audits it, and reads back what it has written"
_IMPORTS = "nearly all of it is Python's imports"

TARGETS = (
    Target("the whole line, cold / by hand with SCD 2", 1.0, "x", (_LINE, _BY_HAND), _times, _AUDITED),
    Target("the same, CPU", 1.0, "x", (_LINE, _BY_HAND), _times_cpu, _AUDITED),
    Target("the whole line, half of the columns with NULLs / by hand", 1.0, "x", (_NULLS, _NULLS_BY_HAND), _times, _AUDITED),
    Target("the same, CPU", 1.0, "x", (_NULLS, _NULLS_BY_HAND), _times_cpu, _AUDITED),
    Target(
        "five times as much: line / by hand with SCD 2", 1.3, "x", (_FIVE, _FIVE_BY_HAND), _times, _AUDITED
    ),
    Target("five times as much: the largest process", 4, "GiB", (_FIVE,), _gibibytes),
    Target("five times as much / one", 5.2, "x", (_FIVE, _LINE), _times),
    Target(
        "normalize / typed JSON read into Iceberg", 1.0, "x", (_LINE, "Spark: typed JSON read"),
        lambda line, read: line.wall("normalize") / read.wall("read"),
        "decoding makes both images, keys and ids, and resolves duplicates; the read does not",
    ),
    Target(
        "ten windows / one", 1.8, "x", (_TEN, _LINE), _times,
        "each window reads and writes the files of the open intervals and of the current rows again",
    ),
    Target("ten windows: line / by hand", 1.0, "x", (_TEN, _TEN_BY_HAND), _times),
    Target("ten windows: wrong rows and versions", 0, "", (_TEN,), _wrong),
    Target(
        "10,000 changes into 10 M rows, keys spread", 8, "s", (_LARGE,), _window("spread"),
        "every file has some of the keys: all open intervals are decoded, and two MERGEs look for the keys",
    ),
    Target(
        "10,000 changes into 10 M rows, recent keys", 2, "s", (_LARGE,), _window("recent"),
        "bounds leave one file of a million rows, which is read and written again",
    ),
    Target(
        "10,000 changes into 10 M rows, keys spread: line / by hand", 1.0, "x", (_LARGE, _LARGE_BY_HAND),
        lambda line, by_hand: _window("spread")(line) / by_hand.wall("spread"),
    ),
    Target(
        "the same, recent keys", 1.0, "x", (_LARGE, _LARGE_BY_HAND),
        lambda line, by_hand: _window("recent")(line) / by_hand.wall("recent"),
    ),
    Target("4 tables x 50 changes, warm: all stages", 12, "s", (_SMALL,), _last_window("s")),
    Target("the same, CPU", 15, "CPU s", (_SMALL,), _last_window("CPU s")),
    Target(
        "40 tables x 50 changes / 4 tables, warm", 3, "x", (_MANY, _SMALL),
        lambda many, few: _last_window("s")(many) / _last_window("s")(few),
        "a commit for each of 120 tables in two stages",
    ),
    Target("40 tables x 50 changes, three windows: line / by hand", 1.0, "x", (_MANY, _MANY_BY_HAND), _times),
    # Before ADR 0036, four starts of Spark and five CPU seconds of work took some 45 CPU s.
    Target("an ordinary hour, five jobs by spark-submit, cold", 31.5, "CPU s", (_COMMANDS,), _hour),
    Target(
        "idle window, all five tasks", 3, "CPU s", (_COMMANDS,),
        lambda of: max(of.cpu(f"idle window of {feed}") for feed in ("messages", "change_tables")),
    ),
    Target("`decode` of ten messages", 1, "s", (_COMMANDS,), lambda of: of.wall("decode"), _IMPORTS),
    Target("`status`", 2, "s", (_COMMANDS,), lambda of: of.wall("status"), _IMPORTS),
    Target(
        "the slowest dialect's normalize / Debezium's", 1.5, "x", ("five dialects",), _slowest_dialect,
        "CES is JSON in JSON in JSON, and repeats its table's columns: three times Debezium's bytes",
    ),
    Target(
        "`make demo` with everything installed", 90, "s", ("make demo",), lambda of: of.wall(),
        "25 tasks, each a process that imports for 2 CPU s, and five of Airflow for 5",
    ),
    Target(
        "`make test`", 720, "s", ("make test",), lambda of: of.wall(),
        "integration and fault tests start services and some 25 Sparks, and run whole windows",
    ),
    Target("`compare` of five feeds, 4 tables", 20, "s", (_PROVED,), lambda of: of.wall("compare")),
    Target("`verify` of the same", 20, "s", (_PROVED,), lambda of: of.wall("verify")),
)  # fmt: skip
