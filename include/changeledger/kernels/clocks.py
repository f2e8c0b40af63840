"""Points in time in microseconds since 1970: those in texts, and those at the start of change sequences.

A sequence starts with year to second and hundredths, in UTC, and is up to 3 seconds behind the timestamp.

Nobody can see a commit before it happens. A commit time later than that is local time taken for UTC, or comes
from a wrong clock: on servers east of UTC connectors were hours ahead.
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

# Start of 1971. Sources that do not know a time write one of 1970, or of long before.
FIRST_KNOWN = 31_536_000_000_000
_EPOCH = datetime(1970, 1, 1)
_SECOND = 1_000_000
_QUARTER_HOUR = 900 * _SECOND
_FARTHEST_ZONE = 14 * 4 * _QUARTER_HOUR
# The most by which two correct clocks may differ: less than time zones do.
_MOST_APART = 600 * _SECOND
# How far a timestamp may be ahead of its sequence, and how far behind.
_AHEAD, _BEHIND = 4 * _SECOND, _SECOND


def of_texts(
    texts: pa.StringArray, usual: str, kind: pa.DataType, read: Callable[[str], int | None]
) -> tuple[Indices, Bools]:
    """Parses texts. Returns the times, and which texts are times.

    `usual`: the pattern of texts that Arrow casts to `kind`. `read` parses single texts if any does not
    match.
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
    """Converts a time such as `2026-08-07T16:25:00`, in a zone `east` minutes east of UTC.

    `fraction`: the digits of its second, of which six count. Returns None outside the calendar.
    """
    try:
        whole = datetime.fromisoformat(moment) - _EPOCH
    except ValueError:
        return None
    since = (whole.days * 86_400 + whole.seconds - east * 60) * _SECOND + int(f"{(fraction or '')[:6]:0<6}")
    return since if MICROS[0] <= since <= MICROS[1] else None


def micros(clock: npt.NDArray[np.int64]) -> tuple[Indices, Bools]:
    """Converts numbers such as `2026080716250088`. Returns microseconds since 1970, and which are times."""
    parts = []
    for _ in range(6):
        clock, part = np.divmod(clock, 100)
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
    """Returns which timestamps are 1 to 56 whole quarter hours away from the times in their sequences."""
    apart = stamps - sequences
    quarters = (apart + _QUARTER_HOUR // 2) // _QUARTER_HOUR * _QUARTER_HOUR
    rest = apart - quarters
    is_near = (rest >= -_BEHIND) & (rest <= _AHEAD)
    is_apart: Bools = (quarters != 0) & (np.abs(quarters) <= _FARTHEST_ZONE) & is_near
    return is_apart


def is_ahead(committed: Indices, seen: Indices) -> Bools:
    """Returns which commits are later than the time at which somebody saw them."""
    ahead: Bools = committed - seen > _MOST_APART
    return ahead
