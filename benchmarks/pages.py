"""Measures how long the pages in Airflow take for 50 feeds with 100 tables each.

    python -m benchmarks.pages

All feeds are of one database and compared with the first. The first and those that are compared daily have
run hourly for a year: 8,760 windows each, of which two days have reads, stages and verdicts. (A control store
with 30 days of these for all feeds would have 20 GB, and pages ask for single windows by their keys.) Neither
Spark nor a lake is needed: it measures what a page asks of the control store, and its text.
"""

from __future__ import annotations

import argparse
import logging
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.filled_year import lengthen
from changeledger.airflow_ui.app import PREFIX
from changeledger.config.settings import Settings
from changeledger.control import ControlStore
from changeledger.state.overview import LAST
from sourcelab.filled_store import FilledFeed, fill
from sourcelab.page_client import page_client

_TIMES = 3
# Windows of the other feeds whose verdicts a page may ask for.
_JUDGED = 2
_REFERENCE = "feed_000"
_TROUBLES = ("", "audit", "failure", "late", "stale", "lacking", "differ", "drift", "tolerated", "taken back")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pages", description=__doc__)
    parser.add_argument("--feeds", type=int, default=50)
    parser.add_argument("--tables", type=int, default=100)
    parser.add_argument("--windows", type=int, default=8760, help="of the feeds that are compared daily")
    parser.add_argument("--detailed", type=int, default=48, help="windows with reads, stages and verdicts")
    parser.add_argument("--days", type=int, default=365, help="of daily comparisons and proofs")
    parser.add_argument("--pairs", type=int, default=1, help="feeds that are compared daily")
    parser.add_argument("--folder", type=Path, help="keep the store there, and time it again the next time")
    asked = parser.parse_args(argv)
    # Airflow logs each request of the client.
    logging.disable(logging.INFO)
    with tempfile.TemporaryDirectory() as passing:
        folder = asked.folder or Path(passing)
        os.environ["CHANGELEDGER_HOME"] = f"{folder}/home"
        os.environ["CHANGELEDGER_FEEDS"] = f"{folder}/feeds"
        os.environ["CHANGELEDGER_DATABASES"] = f"{folder}/databases"
        settings = Settings()
        store = folder / "home" / "control.db"
        if not store.exists():
            began = time.perf_counter()
            fill(settings.control_url, settings.feeds, _feeds(asked))
            compared = (f"feed_{number:03d}" for number in range(asked.pairs + 1))
            lengthen(store, compared, asked.detailed, asked.windows // asked.detailed - 1)
            print(f"{asked.feeds} feeds, {asked.tables} tables, {asked.windows} windows of {asked.pairs + 1} "
                  f"feeds, {asked.pairs} pairs compared on {asked.days} days, in {time.perf_counter() - began:.0f} s")  # fmt: skip
        print(f"a control store of {store.stat().st_size / 1e6:,.0f} MB")
        _time(settings)
    return 0


def _feeds(asked: argparse.Namespace) -> list[FilledFeed]:
    return [
        FilledFeed(
            f"feed_{number:03d}",
            tables=tuple(f"dbo.table_{table:04d}" for table in range(asked.tables)),
            windows=asked.detailed if number <= asked.pairs else LAST,
            detailed=asked.detailed if number <= asked.pairs else _JUDGED,
            trouble=_TROUBLES[number % len(_TROUBLES)],
            quarantined=3,
            reference=_REFERENCE,
            compared_days=asked.days if 0 < number <= asked.pairs else 1,
        )
        for number in range(asked.feeds)
    ]


def _time(settings: Settings) -> None:
    client, feed = page_client(), "feed_001"
    window = ControlStore(settings.control_url).windows.last(feed)
    assert window is not None, "filled above"
    pages = {
        "feeds": "/",
        "feed": f"/feeds/{feed}",
        "window": f"/feeds/{feed}/windows/{window.window_id}",
        "table": f"/feeds/{feed}/tables/dbo.table_0000",
        "releases": f"/feeds/{feed}/releases",
        "old releases": f"/feeds/{feed}/releases?before=100",
        "quarantine": f"/feeds/{feed}/quarantine",
        "agreement": "/agreement/shop",
        "pair": f"/agreement/shop?reference={_REFERENCE}&feed={feed}",
        "pair, year": f"/agreement/shop?reference={_REFERENCE}&feed={feed}&days=365",
        "cutover": f"/cutover/shop?old={_REFERENCE}&new={feed}",
        "year": f"/cutover/shop?old={_REFERENCE}&new={feed}&days=365",
    }
    print(f"{'page':12}{'first s':>9}{'median s':>10}{'CPU s':>8}{'KB':>7}")
    for name, path in pages.items():
        seconds, processor, size = [], [], 0
        for _ in range(_TIMES):
            begin, begin_processor = time.perf_counter(), time.process_time()
            answer = client.get(f"{PREFIX}{path}")
            seconds.append(time.perf_counter() - begin)
            # CPU time says more than the clock on a busy machine.
            processor.append(time.process_time() - begin_processor)
            assert answer.status_code == 200, f"{path}: {answer.status_code}"
            size = len(answer.content)
        first, median = seconds[0], statistics.median(seconds[1:])
        print(f"{name:12}{first:9.3f}{median:10.3f}{statistics.median(processor):8.3f}{size / 1000:7.0f}",
              flush=True)  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
