"""The page of comparisons: what the chart shows, and when."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from changeledger.control import ControlStore
from changeledger.reports.comparison import Pair, Report, Span, gather, write
from tests.state.pairs import DATABASE, NEW, OLD, TABLE, compare, feeds

NO_SPARK: Any = None
AT = datetime(2026, 8, 7, 22, tzinfo=UTC)


def page(tmp_path: Path, until: timedelta) -> str:
    spans = [Span(0, 250, 100, "all agree"), Span(750, 250, 40, "2 of 5 agree")]
    write(Report("shop", "one", AT, [Pair("two", "agree", [], [], spans, AT, AT + until, [], [])]), tmp_path)
    return (tmp_path / "index.html").read_text("utf-8")


def test_the_time_axis_goes_from_the_first_to_the_last_commit(tmp_path: Path) -> None:
    html = page(tmp_path, timedelta(hours=4))
    ticks = re.findall(r'<span style="left: (\d+)%">(.*?)\n(.*?)</span>', html, re.DOTALL)
    assert ticks == [
        ("0", "2026-08-07", "22:00:00"),
        ("25", "2026-08-07", "23:00:00"),
        ("50", "2026-08-08", "00:00:00"),
        ("75", "2026-08-08", "01:00:00"),
        ("100", "2026-08-08", "02:00:00"),
    ]


def test_the_legend_names_every_colour(tmp_path: Path) -> None:
    html = page(tmp_path, timedelta(hours=4))
    legend = re.findall(r'<rect class="(\w+)" width="1" height="1"/></svg>(.*?)</li>', html)
    assert [colour for colour, _ in legend] == ["good", "bad", "none"]
    assert dict(legend)["none"] == "no change has a commit time here, or none was compared"
    drawn = set(re.findall(r'<rect class="(\w+)" x=', html))
    assert drawn <= {colour for colour, _ in legend}


def test_a_table_that_was_never_compared_is_named(tmp_path: Path) -> None:
    """The feed may have lost all changes of the table, or not list it."""
    control = ControlStore(f"sqlite:///{tmp_path}/control.db")
    compare(control, 1, 9, AT, AT + timedelta(hours=1), table=TABLE.upper())
    database = DATABASE.model_copy(update={"reference": OLD})
    report = gather(NO_SPARK, control, database, feeds(TABLE, only_old=("dbo.parts",)))
    (pair,) = report.pairs
    assert (pair.feed, pair.outcome, pair.left_out) == (NEW, "agree", ["dbo.parts"])
    write(report, tmp_path)
    for name in ("index.html", "comparison.md"):
        assert "only one of the two has published it: dbo.parts" in (tmp_path / name).read_text("utf-8")
