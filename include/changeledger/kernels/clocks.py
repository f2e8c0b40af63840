"""Times that change sequences begin with, and whether a timestamp beside one is in another zone.

A sequence begins with year to second and hundredths, in UTC; it runs up to 3 seconds behind the timestamp.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from changeledger.kernels.arrow import Bools, Indices

_SECOND = 1_000_000
_QUARTER_HOUR = 900 * _SECOND
_FARTHEST_ZONE = 14 * 4 * _QUARTER_HOUR
# Of a timestamp beside a sequence: how far it may be ahead, and how far behind.
_AHEAD, _BEHIND = 4 * _SECOND, _SECOND


def micros(clock: npt.NDArray[np.int64]) -> tuple[Indices, Bools]:
    """Numbers as `2026080716250088` in microseconds from 1970, and which of them are a time."""
    parts = []
    for size in (100, 100, 100, 100, 100, 100):
        clock, part = np.divmod(clock, size)
        parts.append(part)
    hundredths, second, minute, hour, day, month = parts
    months = ((clock - 1970) * 12 + month - 1).astype("M8[M]")
    days = months.astype("M8[D]").astype(np.int64) + day - 1
    last = (months + 1).astype("M8[D]").astype(np.int64)
    known: Bools = (clock > 0) & (month >= 1) & (month <= 12) & (day >= 1) & (days < last)
    known &= (hour < 24) & (minute < 60) & (second < 60)
    seconds = days * 86_400 + hour * 3600 + minute * 60 + second
    return seconds * _SECOND + hundredths * 10_000, known


def in_another_zone(stamps: Indices, sequences: Indices) -> Bools:
    """Are timestamps whole quarter hours, one to 56 of them, from the times in their sequences?"""
    apart = stamps - sequences
    quarters = (apart + _QUARTER_HOUR // 2) // _QUARTER_HOUR * _QUARTER_HOUR
    rest = apart - quarters
    is_near = (rest >= -_BEHIND) & (rest <= _AHEAD)
    is_apart: Bools = (quarters != 0) & (np.abs(quarters) <= _FARTHEST_ZONE) & is_near
    return is_apart
