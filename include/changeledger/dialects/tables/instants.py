"""Times in header columns: typed, or as text in the forms that Spark's casts take.

They are microseconds since 1970, within the years 1 to 9999: SQL Server and Python know no others.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import partial
from typing import Final
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.dialects.tables.rows import Read
from changeledger.kernels import cells
from changeledger.kernels.arrow import INSTANT, Bools, numbers, valid
from changeledger.kernels.cast_text import as_text
from changeledger.kernels.sql_text import MICROS

Micros = npt.NDArray[np.int64]
# Unknown fold: the time may be the first or the second occurrence of a repeated hour.
NO_FOLD: Final = -1
_MINUTE = 60_000_000
_EPOCH = datetime(1970, 1, 1)
_USUAL = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[ T](?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,9})?$"
# Length of such a text up to its microseconds; finer digits are cut.
_END_OF_MICROS = 26
_TEXT = re.compile(
    r"(?P<year>[0-9]{4})(?:-(?P<month>[0-9]{1,2})(?:-(?P<day>[0-9]{1,2})"
    r"(?:[ T](?P<hour>[0-9]{1,2})(?::(?P<minute>[0-9]{1,2})(?::(?P<second>[0-9]{1,2})"
    r"(?:\.(?P<fraction>[0-9]*))?(?P<zone>.*))?)?)?)?)?\Z",
    re.DOTALL,
)
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])([0-9]{1,2})(?::?([0-9]{2}))?(?::?([0-9]{2}))?\Z")


def known(micros: Micros, has_time: Bools) -> pa.TimestampArray:
    """Converts to timestamps: NULL where a value is absent or outside the years 1 to 9999."""
    fits = has_time & (micros >= MICROS[0]) & (micros <= MICROS[1])
    return pa.array(np.where(fits, micros, 0), pa.int64(), mask=~fits).view(INSTANT)


def read(column: Read, *, in_zone: bool) -> tuple[Micros, Bools]:
    """Returns the times of a column, and which of its values are times.

    With `in_zone` a zone in a text counts, and a text without one is in UTC. Otherwise a zone is ignored, and
    the time is local.
    """
    if column.kind in {"timestamp", "timestamp_ntz"}:
        return numbers(column.values), valid(column.values)
    texts = as_text(column.values)
    usual = pc.all(pc.match_substring_regex(texts, _USUAL), skip_nulls=True).as_py()
    if usual is not False:
        try:
            in_micros = pc.utf8_slice_codeunits(texts, 0, _END_OF_MICROS)
            return numbers(pc.cast(in_micros, pa.timestamp("us"))), valid(texts)
        except pa.ArrowInvalid:
            pass
    micros = cells.each(texts.to_pylist(), partial(of_text, in_zone=in_zone), pa.int64()).values
    return numbers(micros), valid(micros)


def in_zones(column: Read) -> tuple[Micros, Bools]:
    """Returns the UTC times of the texts that name their zone, and which texts these are."""
    micros, names_zone = np.zeros(len(column.values), np.int64), np.zeros(len(column.values), np.bool_)
    if column.kind == "string":
        unusual = pc.invert(pc.match_substring_regex(column.values, _USUAL)).fill_null(False)
        for row in np.flatnonzero(unusual.to_numpy(zero_copy_only=False)):
            text = column.values[int(row)].as_py()
            match = _TEXT.match(text.strip())
            moment = of_text(text, in_zone=True) if match and match["zone"] else None
            if moment is not None:
                micros[row], names_zone[row] = moment, True
    return micros, names_zone


def of_text(text: str, *, in_zone: bool) -> int | None:
    """Parses a time in microseconds since 1970, in UTC if `in_zone`, else local.

    Returns None if the text is not a date or timestamp (a time of day alone is neither). With `in_zone` it
    also returns None if the zone's clock shows the time twice or skips it.
    """
    match = _TEXT.match(text.strip())
    if match is None:
        return None
    year, month, day, hour, minute, second = (
        int(match[name] or otherwise)
        for name, otherwise in zip(
            ("year", "month", "day", "hour", "minute", "second"), "011000", strict=True
        )
    )
    try:
        moment = datetime(year, month, day, hour, minute, second)
        zone = _zone(match["zone"].strip()) if match["zone"] else UTC
        offset = _only_offset(moment, zone)
    except (ValueError, KeyError, OSError):
        return None
    micros = (moment - _EPOCH) // timedelta(microseconds=1) + int(f"{match['fraction'] or '':0<6}"[:6])
    if not in_zone:
        return micros
    return None if offset is None else micros - offset // timedelta(microseconds=1)


def _only_offset(moment: datetime, zone: tzinfo) -> timedelta | None:
    """Returns the zone's offset, or None if its clock shows the time twice or skips it.

    Such a time is not a single point in time.
    """
    earlier, later = (moment.replace(tzinfo=zone, fold=fold).utcoffset() for fold in (0, 1))
    return earlier if earlier == later else None


def _zone(text: str) -> timezone | ZoneInfo:
    """Parses a zone. Raises ValueError, KeyError or OSError if there is no such zone."""
    if text in {"Z", "UTC", "GMT", "UT", ""}:
        return UTC
    match = _OFFSET.match(text)
    if match is None:
        return ZoneInfo(text)
    hours, minutes, seconds = (int(part or 0) for part in match.groups()[1:])
    if hours > 18 or minutes > 59:
        raise ValueError(text)
    offset = timedelta(hours=hours, minutes=minutes, seconds=seconds)
    return timezone(-offset if match[1] == "-" else offset)


def to_utc(local: Micros, zone: str, fold: npt.NDArray[np.int64]) -> tuple[Micros, Bools]:
    """Converts a zone's local times to UTC, and tells which of them are doubtful.

    `fold` is that of PEP 495: 0 for the earlier and 1 for the later occurrence of a repeated time. With any
    other fold a repeated time counts as the earlier one and is doubtful. A time that the clocks skip is also
    doubtful; it gets the offset from before the gap. Clocks change at whole minutes, so the offset is looked
    up once for each minute that occurs.
    """
    if zone == "UTC":
        return local, np.zeros(len(local), np.bool_)
    minutes, place = np.unique(local // _MINUTE, return_inverse=True)
    clock = ZoneInfo(zone)
    earlier, later = (np.array([_offset(int(m), clock, f) for m in minutes], np.int64) for f in (0, 1))
    comes_twice, is_skipped = (earlier > later)[place], (earlier < later)[place]
    offsets = np.where(comes_twice & (fold == 1), later[place], earlier[place])
    return local - offsets, is_skipped | (comes_twice & ~np.isin(fold, (0, 1)))


def _offset(minute: int, zone: ZoneInfo, fold: int) -> int:
    """Returns how many microseconds the zone is ahead of UTC; 0 outside the years 1 to 9999."""
    try:
        moment = _EPOCH + timedelta(minutes=minute)
    except OverflowError:
        return 0
    return (moment.replace(tzinfo=zone, fold=fold).utcoffset() or timedelta()) // timedelta(microseconds=1)
