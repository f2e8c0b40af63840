"""Measures the table of targets: the ratios reached in one run, as medians of several tries.

    python -m benchmarks.run [--messages 1000000] [--tries 3] [--only NAME ...] [--save]

Each subject runs in its own process, which begins cold. Wrong rows are shown beside the seconds, for every
subject. `--save` writes `docs/benchmarks.md` after each round.
"""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.bench import Bench, Result
from benchmarks.figures import Figures
from benchmarks.meter import DRIVER, JVM, WORKERS
from benchmarks.shapes import NULLS
from benchmarks.targets import TARGETS, Target
from changeledger.config.settings import PROJECT

PAGE = PROJECT / "docs" / "benchmarks.md"
# Changes of one table in a small window.
_FEW = 50
_HEAD = (
    "what",
    "tries",
    "wall s",
    "CPU s",
    "JVM",
    "workers",
    "peak MiB: JVM, worker",
    "wrong rows",
    "wrong versions",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--tries", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=[], metavar="SUBJECT")
    parser.add_argument("--save", action="store_true", help=f"write {PAGE.relative_to(PROJECT)}")
    asked = parser.parse_args()
    console = Console(width=140)
    with Bench() as bench:
        for by_subject in measure(subjects(bench, asked.messages), asked.tries, asked.only):
            page = [*tables(by_subject, asked.messages), of_targets(TARGETS, by_subject)]
            for table in page:
                console.print(table)
            if asked.save:
                PAGE.write_text(as_page(page), "utf-8")


def subjects(bench: Bench, messages: int) -> dict[str, Callable[[], Result]]:
    """Returns what is measured, by the names used in `TARGETS`."""
    return {
        "DuckDB: latest state": lambda: bench.duckdb(messages),
        "DuckDB: latest state and SCD 2": lambda: bench.duckdb(messages, history=True),
        "dlt with Arrow into DuckDB": lambda: bench.dlt(messages),
        "Spark: typed JSON read": lambda: bench.floor(messages),
        "Spark by hand": lambda: bench.by_hand(messages, history=False),
        **_of_both("Spark by hand with SCD 2", bench.by_hand, messages),
        **_of_both("line", bench.line, messages),
        "line, 4 tables, each five times the messages": lambda: bench.line(5 * messages, tables=4),
        "line, a cluster of one worker": lambda: bench.line(messages, workers=1),
        "line, a cluster of two workers": lambda: bench.line(messages, workers=2),
        "line, a cluster of four workers": lambda: bench.line(messages, workers=4),
        "commands and idle windows": bench.commands,
        "10,000 updates into 0.1 M rows": lambda: bench.large_table(100_000),
        "10,000 updates into 10 M rows": lambda: bench.large_table(10_000_000),
        "10,000 updates into 10 M rows, by hand": lambda: bench.large_table(10_000_000, by_hand=True),
        "10,000 updates into 100 M rows": lambda: bench.large_table(100_000_000),
        # Some 20,000 changes, and 1,472.
        "five dialects": lambda: bench.dialects(4_000),
        "five feeds, compare and verify": lambda: bench.dialects(280, prove=True),
        "make demo": lambda: bench.make("demo"),
        "make test": lambda: bench.make("test"),
    }


def _of_both(name: str, ran: Callable[..., Result], messages: int) -> dict[str, Callable[[], Result]]:
    """Returns the measurements that exist both for the line and for the one written by hand."""
    small = partial(ran, 3 * _FEW, windows=3)
    return {
        name: lambda: ran(messages),
        f"{name}, ten windows": lambda: ran(messages, windows=10),
        f"{name}, five times the messages": lambda: ran(5 * messages),
        f"{name}, NULLs": lambda: ran(messages, shape=NULLS),
        f"{name}, 4 tables x 50 changes, three windows": lambda: small(tables=4),
        f"{name}, 40 tables x 50 changes, three windows": lambda: small(tables=40),
        f"{name}, 400 tables x 50 changes, three windows": lambda: small(tables=400),
    }


def measure(
    of: Mapping[str, Callable[[], Result]], tries: int, only: Sequence[str]
) -> Iterator[dict[str, Figures]]:
    """Yields the figures after each round. Subjects take turns, so that other load affects all alike."""
    results: dict[str, list[Result]] = {name: [] for name in of if not only or name in only}
    for number in range(tries):
        for name, subject_results in results.items():
            result = of[name]()
            subject_results.append(result)
            took = f"{result.measured.wall():.1f} s, {result.measured.cpu():.1f} CPU s, {result.wrong}"
            print(f"[{number + 1}/{tries}] {name}: {took}", flush=True)
        yield {name: Figures(subject_results) for name, subject_results in results.items()}


def tables(by_subject: Mapping[str, Figures], messages: int) -> list[Table]:
    at = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    machine = f"{os.cpu_count()} cores, {_processor()}, load {os.getloadavg()[0]:.1f}"
    whole = Table(*_HEAD, title=f"{messages:,} messages, medians; {machine}; {at}")
    for name, figures in by_subject.items():
        peaks = f"{figures.peak(JVM):,.0f}, {figures.peak(WORKERS) or figures.peak(DRIVER):,.0f}"
        cpus = [f"{figures.cpu():.1f}", *(f"{figures.cpu_of(kind):.1f}" for kind in (JVM, WORKERS))]
        wrong = ["-" if count is None else f"{count:,}" for count in figures.wrong or (None, None)]
        whole.add_row(name, f"{len(figures.results)}", f"{figures.wall():.1f}", *cpus, peaks, *wrong)
    spans = Table("what", "part", "wall s", "CPU s", title="The parts")
    for name, figures in by_subject.items():
        for span in figures.spans:
            spans.add_row(name, span, f"{figures.wall(span):.1f}", f"{figures.cpu(span):.1f}")
    return [whole, spans]


def of_targets(targets: Sequence[Target], by_subject: Mapping[str, Figures]) -> Table:
    table = Table("target", "aim", "reached", "", title="Targets")
    for target in targets:
        if not all(name in by_subject for name in target.of):
            table.add_row(target.what, target.aim_text, "not measured", "")
            continue
        reached = target.reached(*(by_subject[name] for name in target.of))
        missed = f"missed: {target.why}" if target.why else "missed"
        verdict = "met" if reached <= target.aim else missed
        table.add_row(target.what, target.aim_text, f"{reached:.2f}", verdict)
    return table


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines() if Path("/proc/cpuinfo").exists() else []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor() or platform.machine())


def as_page(tables: Sequence[Table]) -> str:
    """Returns the page in Markdown: what `make bench` printed, and how it is measured."""
    parts = [PAGE.read_text("utf-8").partition("\n<!-- figures -->\n")[0], "\n<!-- figures -->\n"]
    for table in tables:
        heads = [str(column.header) or " " for column in table.columns]
        rows = zip(*(list(column.cells) for column in table.columns), strict=True)
        lines = [heads, ["---"] * len(heads), *([str(cell) for cell in row] for row in rows)]
        body = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        parts.append(f"\n## {table.title}\n\n{body}\n")
    return "".join(parts)


if __name__ == "__main__":
    main()
