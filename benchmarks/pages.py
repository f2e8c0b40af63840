"""How long the pages in Airflow take, of 50 feeds with 100 tables each: `python -m benchmarks.pages`.

Without Spark and without a lake: what a page asks of the control store, and its text.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from changeledger.airflow_ui.app import PREFIX
from changeledger.config.settings import Settings
from changeledger.control import ControlStore
from sourcelab.filled_store import FilledFeed, fill
from sourcelab.page_client import page_client

_TIMES = 7
_TROUBLES = ("", "audit", "failure", "late", "stale", "lacking", "differ", "drift", "tolerated", "taken back")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pages", description=__doc__)
    parser.add_argument("--feeds", type=int, default=50)
    parser.add_argument("--tables", type=int, default=100)
    parser.add_argument("--windows", type=int, default=48)
    asked = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["CHANGELEDGER_HOME"] = f"{folder}/home"
        os.environ["CHANGELEDGER_FEEDS"] = f"{folder}/feeds"
        settings = Settings()
        tables = tuple(f"dbo.table_{number:04d}" for number in range(asked.tables))
        troubles = (_TROUBLES[number % len(_TROUBLES)] for number in range(asked.feeds))
        feeds = [
            FilledFeed(
                f"feed_{number:03d}", tables=tables, windows=asked.windows, trouble=trouble, quarantined=3
            )
            for number, trouble in enumerate(troubles)
        ]
        began = time.perf_counter()
        fill(settings.control_url, settings.feeds, feeds)
        size = Path(f"{folder}/home/control.db").stat().st_size
        print(f"{asked.feeds} feeds, {asked.tables} tables, {asked.windows} windows each: a control store of "
              f"{size / 1e6:,.0f} MB, filled in {time.perf_counter() - began:.0f} s")  # fmt: skip
        _time(settings)
    return 0


def _time(settings: Settings) -> None:
    client, feed = page_client(), "feed_001"
    window = ControlStore(settings.control_url).last_window(feed)
    assert window is not None, "filled above"
    pages = {
        "feeds": "/",
        "feed": f"/feeds/{feed}",
        "window": f"/feeds/{feed}/windows/{window.window_id}",
        "table": f"/feeds/{feed}/tables/dbo.table_0000",
        "releases": f"/feeds/{feed}/releases",
        "quarantine": f"/feeds/{feed}/quarantine",
    }
    print(f"{'page':12}{'first s':>9}{'median s':>10}{'KB':>7}")
    for name, path in pages.items():
        seconds, size = [], 0
        for _ in range(_TIMES):
            begin = time.perf_counter()
            answer = client.get(f"{PREFIX}{path}")
            seconds.append(time.perf_counter() - begin)
            assert answer.status_code == 200, f"{path}: {answer.status_code}"
            size = len(answer.content)
        first, median = seconds[0], statistics.median(seconds[1:])
        print(f"{name:12}{first:9.3f}{median:10.3f}{size / 1000:7.0f}")


if __name__ == "__main__":
    sys.exit(main())
