"""Bars over time: heights, the axis, and small counts among large ones."""

from __future__ import annotations

from changeledger.airflow_ui.charts import HEIGHT, WIDTH, Column, stacked

SHADES = {"unexplained": "c6", "equal": "c1"}


def test_one_among_millions_is_to_be_seen_and_the_bar_stays_in_the_picture() -> None:
    columns = [
        Column("", "2026-01-01", "first", {"unexplained": 1, "equal": 4_999_999}),
        Column("/there", "2026-01-02", "second", {"unexplained": 0, "equal": 10}),
    ]
    chart = stacked(columns, SHADES, {"unexplained": 3.0})
    assert chart is not None
    few, many = chart.bars[0].segments
    assert (few.shade, few.height, few.y) == ("c6", 3.0, HEIGHT - 3.0)
    assert (many.y, many.height) == (0, HEIGHT - 3.0)
    assert [segment.shade for segment in chart.bars[1].segments] == ["c1"]
    assert (chart.top, chart.ticks, chart.bars[1].address) == (5_000_000, ["2026-01-01"], "/there")


def test_a_single_bar_is_no_wall() -> None:
    chart = stacked([Column("", "2026-01-01", "first", {"equal": 10})], SHADES)
    assert chart is not None
    assert chart.bars[0].width < WIDTH / 10


def test_nothing_to_show() -> None:
    assert stacked([Column("", "2026-01-01", "", {"equal": 0})], SHADES) is None
