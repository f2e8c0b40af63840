"""Rows per second of each stage for one million changes, told by both dialects, on this machine.

Beside them, measured in the same run: the floor (Spark's own typed JSON read, written to Iceberg) and a
plain hand-written job (typed read, append, `row_number`, MERGE: no audit, no history). Each figure is
one run: quote the ratios, and run it again before you trust a small difference.

    python -m benchmarks.run [CHANGES]
"""

from __future__ import annotations

import os
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table as Printed

PROJECT = Path(__file__).resolve().parents[1]
HOME = PROJECT / ".changeledger" / "bench"


def main() -> None:
    changes = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    shutil.rmtree(HOME, ignore_errors=True)
    HOME.mkdir(parents=True)
    os.environ["CHANGELEDGER_HOME"] = str(HOME)
    from benchmarks.work import Bench, timed  # noqa: PLC0415 - reads the settings

    with Bench(HOME, changes) as bench:
        seconds = {
            "floor: typed JSON read, to Iceberg": bench.floor(),
            "hand-written: read, append, row_number, MERGE": timed(bench.by_hand),
        }
        stages = {feed.feed: bench.line(feed) for feed in bench.feeds}
    floor, by_hand = seconds.values()
    show(changes, seconds, stages, floor, by_hand)


def show(
    changes: int,
    plain: dict[str, float],
    stages: dict[str, dict[str, float]],
    floor: float,
    by_hand: float,
) -> None:
    printed = Printed(
        title=f"{changes:,} changes, {os.cpu_count()} cores, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    )
    for name in ("what", "seconds", "rows/s", "times the floor", "times the hand-written job"):
        printed.add_column(name, justify="left" if name == "what" else "right")

    def line(what: str, took: float) -> None:
        printed.add_row(
            what, f"{took:.1f}", f"{changes / took:,.0f}", f"{took / floor:.2f}", f"{took / by_hand:.2f}"
        )

    for what, took in plain.items():
        line(what, took)
    for feed, told in stages.items():
        for stage, took in told.items():
            line(f"{feed}: {stage}", took)
        line(f"{feed}: the whole line", sum(told.values()))
    Console(width=120).print(printed)


if __name__ == "__main__":
    main()
