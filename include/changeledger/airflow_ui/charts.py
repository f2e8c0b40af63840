"""Stacked bars over time as SVG. Positions are in the picture's own units; the axes are HTML beside it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

WIDTH: Final = 1000
HEIGHT: Final = 100
# The share of a bar's room that stays empty.
_GAP = 0.18
_STEPS = (1, 2, 5, 10)
# So that one or two bars do not fill the picture's width.
_FEW, _ROOM_OF_FEW = 2, 12


class Segment(NamedTuple):
    """A part of a bar. `shade`: a class of the stylesheet."""

    shade: str
    y: float
    height: float


class Bar(NamedTuple):
    """A bar. `address`: the page of what it shows, if there is one."""

    x: float
    width: float
    title: str
    address: str
    segments: Sequence[Segment]


@dataclass(frozen=True)
class Chart:
    """A chart. `top`: the value at the upper edge; `legend`: shades and meanings; `ticks`: times below."""

    bars: Sequence[Bar]
    top: float
    legend: Sequence[tuple[str, str]]
    ticks: Sequence[str]

    @property
    def levels(self) -> tuple[float, float, float]:
        """The values of the axis, from the top."""
        return self.top, self.top / 2, 0


class Column(NamedTuple):
    """The data of one bar. `values`: by name, in the chart's unit; `at`: its time, for the axis."""

    address: str
    at: str
    title: str
    values: Mapping[str, float]


def stacked(
    columns: Sequence[Column], shades: Mapping[str, str], least: Mapping[str, float] | None = None
) -> Chart | None:
    """Returns bars in the given order, with segments from below in the order of `shades` (class by name).

    Returns None if there is nothing to show. `least`: by name, the least height of a segment in hundredths,
    so that a few among millions are visible.
    """
    top = _round_up(max((sum(column.values.values()) for column in columns), default=0))
    if not top:
        return None
    room = WIDTH / (len(columns) if len(columns) > _FEW else _ROOM_OF_FEW)
    bars = []
    for number, column in enumerate(columns):
        reached, segments = 0.0, []
        for name, shade in shades.items():
            height = HEIGHT * column.values.get(name, 0) / top
            if height:
                height = min(max(height, (least or {}).get(name, 0)), HEIGHT - reached)
                reached += height
                segments.append(Segment(shade, HEIGHT - reached, height))
        x, width = room * (number + _GAP / 2), room * (1 - _GAP)
        bars.append(Bar(x, width, column.title, column.address, segments))
    used = {name for column in columns for name, value in column.values.items() if value}
    legend = [(shade, name) for name, shade in shades.items() if name in used]
    ticks = [columns[at].at for at in ((0, len(columns) // 2, -1) if len(columns) > 2 else (0,))]
    return Chart(bars, top, legend, ticks)


def _round_up(value: float) -> float:
    """Rounds up to 1, 2 or 5 times a power of ten."""
    if value <= 0:
        return 0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in _STEPS if step * power >= value)
