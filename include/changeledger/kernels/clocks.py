"""Points in time in microseconds from 1970: those in texts, and those that change sequences begin with.

A sequence begins with year to second and hundredths, in UTC; it runs up to 3 seconds behind the timestamp.
Nobody sees a commit before it is one: a commit time that is later is local time that was taken for UTC, or
that of a wrong clock: on servers east of UTC connectors were hours ahead.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.kernels.arrow import Bools, Indices, numbers, valid
from changeledger.kernels.sql_text import MICROS

# The beginning of 1971: sources that do not know a time write one of 1970, or of long before.
FIRST_KNOWN = 31_536_000_000_000
_EPOCH = datetime(1970, 1, 1)
_SECOND = 1_000_000
_QUARTER_HOUR = 900 * _SECOND
_FARTHEST_ZONE = 14 * 4 * _QUARTER_HOUR
# By how much two right clocks may differ: less than zones do.
_MOST_APART = 600 * _SECOND
# Of a timestamp beside a sequence: how far it may be ahead, and how far behind.
_AHEAD, _BEHIND = 4 * _SECOND, _SECOND


def of_texts(
    texts: pa.StringArray, usual: str, kind: pa.DataType, read: Callable[[str], int | None]
) -> tuple[Indices, Bools]:
    """The times of texts, and which of them are one. `read`: of one text.

    `usual`: the form in which Arrow casts them all to `kind`.
    """
    if pc.all(pc.match_substring_regex(texts, usual)).as_py() is not False:
        try:
            counts = pc.cast(texts, kind).view(pa.int64())
            least = pc.min(counts).as_py()
            if least is None or least >= MICROS[0]:
                return np.array(numbers(counts)), valid(texts)
        except pa.ArrowInvalid:
            pass
    each = [None if text is None else read(text) for text in texts.to_pylist()]
    known = np.array([instant is not None for instant in each], np.bool_)
    return np.array([instant or 0 for instant in each], np.int64), known


def instant(moment: str, fraction: str | None, east: int) -> int | None:
    """A time as `2026-08-07T16:25:00`, in a zone so many minutes east of UTC; None outside the calendar.

    `fraction`: digits of its second, of which six count.
    """
    try:
        whole = datetime.fromisoformat(moment) - _EPOCH
    except ValueError:
        return None
    since = (whole.days * 86_400 + whole.seconds - east * 60) * _SECOND + int(f"{(fraction or '')[:6]:0<6}")
    return since if MICROS[0] <= since <= MICROS[1] else None


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


def is_ahead(committed: Indices, seen: Indices) -> Bools:
    """Are commits later than the time at which somebody has seen them?"""
    ahead: Bools = committed - seen > _MOST_APART
    return ahead
