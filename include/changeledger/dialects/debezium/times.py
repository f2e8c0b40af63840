"""Reads cells of times: counts in some unit, ISO text, or an object of the parts.

A count is a JSON number. Digits in quotes are not a count (a custom converter may write the day 20240102).
ISO text and objects are self-describing, and are read in any mode. Only a count needs the unit from the
schema block or the connector's mode.

Sources: the connector's chapter on temporal values. For objects (`time.precision.mode: structured`),
Debezium's `StructuredTemporal` and related classes, first with `nanos`, later with `picoseconds`
(debezium/debezium#7554).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.kernels import cells, sql_text
from changeledger.kernels.arrow import Bools, numbers, valid
from changeledger.kernels.cells import Cells
from changeledger.kernels.sql_text import DAYS, MICROS, MICROS_A_DAY, Reader
from changeledger.model.sql_type import SqlType

Numbers = npt.NDArray[np.int64]
TEMPORAL = frozenset({"date", "time", "datetime", "smalldatetime", "datetime2"})
_LONG = (-(2**63), 2**63 - 1)
# SQL Server counts in 100 ns.
_TICK_DIGITS = 7


class _Parts(msgspec.Struct, forbid_unknown_fields=True):
    """The parts of a time, named as in the connector's structured types."""

    year: int | None = None
    month: int | None = None
    day: int | None = None
    hour: int | None = None
    minute: int | None = None
    second: int | None = None
    nanos: int | None = None
    picoseconds: int | None = None
    offset_seconds: int | None = msgspec.field(default=None, name="offsetSeconds")
    # From other databases. A time with a zone also has its offset.
    zone: str | None = msgspec.field(default=None, name="zoneId")
    # An infinity, which SQL Server does not have.
    special: str | None = msgspec.field(default=None, name="specialValue")
    precision: int | None = None


_PARTS = msgspec.json.Decoder(_Parts)


def limits(sql: SqlType, unit: int) -> tuple[int, int]:
    """Returns the least and the greatest count. `unit`: a second has 10**unit; 3, 6 or 9."""
    if sql.base == "date":
        return DAYS
    least, most = (0, MICROS_A_DAY - 1) if sql.base == "time" else MICROS
    if unit == 3:
        return least // 1000, most // 1000
    if unit == 6:
        return least, most
    return max(least * 1000, _LONG[0]), min(most * 1000 + 999, _LONG[1])


def _step(sql: SqlType, unit: int) -> int:
    """Returns the number of which every valid count is a multiple.

    A count with finer digits than the type was never in the column. Either the connector's count of
    nanoseconds wrapped around at 64 bits, as it does outside the years 1677 to 2262 (debezium/debezium#7529),
    or the unit or the column's type is wrong. No wrapped count is a multiple of 100: 2^64 mod 100 is 16.
    """
    if sql.base == "date":
        return 1
    step: int = 10 ** max(unit - min(sql.fraction_digits, _TICK_DIGITS), 0)
    return step


def _fitted(counts: Numbers, sql: SqlType, unit: int) -> tuple[Numbers, Bools]:
    """Rounds counts to the type's digits. Returns them, and which counts have finer digits and do not fit.

    A `datetime` counts in thirds of 10 ms. Its tick .883333 is rounded to .883 as in SQL Server's own text.
    """
    step, second = _step(sql, unit), 10**unit
    is_between: Bools = counts % step != 0
    if sql.base != "datetime" or not is_between.any():
        return counts, is_between
    fraction = counts % second
    is_tick = _is_third(fraction, unit)
    rounded = counts - fraction + (fraction + step // 2) // step * step
    return np.where(is_tick, rounded, counts), is_between & ~is_tick


def _is_third(fractions: Numbers, unit: int) -> Bools:
    """Returns which fractions of a second are thirds of 10 ms, with six or more digits before zeros."""
    is_third = np.zeros(len(fractions), np.bool_)
    for digits in range(6, unit + 1):
        shorter, rest = np.divmod(fractions, 10 ** (unit - digits))
        is_third |= (rest == 0) & sql_text.is_third(shorter, digits)
    return is_third


def counted(sql: SqlType, unit: int) -> Callable[[Sequence[Any]], Cells]:
    """Returns the converter of columns of counts."""
    digits, step = sql.fraction_digits, _step(sql, unit)

    def convert(values: Sequence[Any]) -> Cells:
        if sql.base == "date":
            return Cells(pa.array(values, pa.int32()).cast(pa.date32()))
        counts, unfit = pa.array(values, pa.int64()), None
        if step > 1:
            known = valid(counts)
            fitted, is_between = _fitted(numbers(counts), sql, unit)
            unfit = is_between & known
            counts = pa.array(fitted, pa.int64(), mask=~known | unfit)
        return Cells(moments(counts), unfit)

    def moments(counts: pa.Int64Array) -> pa.Array:
        if sql.base == "time":
            return cells.times(counts, 10 ** (9 - unit), digits)
        if unit == 9 and sql.spark == "timestamp_ntz":
            return pc.cast(pc.cast(counts, pa.timestamp("ns")), pa.timestamp("us"))
        if unit == 9:
            return cells.nanosecond_texts(counts)
        timestamps = cells.timestamps(counts, 10 ** (6 - unit))
        if sql.spark == "timestamp_ntz":
            return timestamps
        return pc.binary_join_element_wise(pc.cast(timestamps, pa.string()), "0", "")

    return convert


def count_reader(sql: SqlType, unit: int) -> Reader:
    """Returns the reader of a count as text."""
    least, most = limits(sql, unit)
    convert = counted(sql, unit)

    def read(text: str) -> Any:
        count = sql_text.whole(text, least, most)
        if count is None or sql.base == "date":
            return count
        (fitted,), (is_between,) = _fitted(np.array([count]), sql, unit)
        if is_between:
            return None
        if sql.spark == "string":
            return convert([count]).values[0].as_py()
        return int(fitted) * 10 ** (9 - unit) // 1000

    return read


def written(sql: SqlType) -> Reader:
    """Returns the reader of ISO text (`2018-06-20T15:13:16.945Z`) or of an object of parts in JSON."""
    of_iso = sql_text.reader(sql)

    def read(text: str) -> Any:
        if text.startswith("{"):
            iso = _iso(text, sql)
            return None if iso is None else of_iso(iso)
        if sql.base == "datetimeoffset":
            return of_iso(text)
        return of_iso(text[:-1]) if text.endswith("Z") and " " not in text else None

    return read


def _iso(text: str, sql: SqlType) -> str | None:
    """Converts an object of parts to ISO text; returns None if the parts are not those of the type."""
    try:
        parts = _PARTS.decode(text)
    except (msgspec.MsgspecError, UnicodeEncodeError):
        return None
    has_day = sql.base != "time"
    has_clock = sql.base != "date"
    has_offset = sql.base == "datetimeoffset"
    groups = (
        (has_day, (parts.year, parts.month, parts.day)),
        (has_clock, (parts.hour, parts.minute, parts.second, _nanos(parts))),
        (has_offset, (parts.offset_seconds,)),
    )
    if sql.base == "datetime" and (_nanos(parts) or 0) % 1_000_000:
        # Its ISO text would be rounded to three digits.
        return None
    if parts.special is not None or any((None in group) == wanted for wanted, group in groups):
        return None
    day = f"{parts.year:04d}-{parts.month:02d}-{parts.day:02d}" if has_day else ""
    clock = f"{parts.hour:02d}:{parts.minute:02d}:{parts.second:02d}.{_nanos(parts):09d}" if has_clock else ""
    offset = _offset(parts.offset_seconds or 0) if has_offset else ""
    return f"{day}{'T' if has_day and has_clock else ''}{clock}{offset}"


def _nanos(parts: _Parts) -> int | None:
    if parts.picoseconds is None:
        return parts.nanos
    nanos, rest = divmod(parts.picoseconds, 1000)
    return nanos if not rest and parts.nanos in {None, nanos} else None


def _offset(seconds: int) -> str:
    minutes, rest = divmod(abs(seconds), 60)
    # The type has no offsets with seconds, so the reader refuses this text.
    of_seconds = f":{rest:02d}" if rest else ""
    return f"{'-' if seconds < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}{of_seconds}"
