"""Parses values of SQL Server's types from the texts of dialects. Returns None if a text does not fit.

Parsing is strict, and into the type's canonical form (docs/types.md), so that a value has one text and texts
order as time does. Dates are days and timestamps microseconds since 1970. Numbers may have the forms that
Spark's `try_cast` takes, because stored values were read with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from decimal import Context, Decimal, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa

from changeledger.kernels import float_digits, ranges
from changeledger.model.sql_type import SqlType

Reader = Callable[[str], Any]

# SQL Server's range, 0001-01-01 to 9999-12-31, in days and microseconds since 1970.
DAYS = (-719_162, 2_932_896)
MICROS = (-62_135_596_800_000_000, 253_402_300_799_999_999)
MICROS_A_DAY = 86_400_000_000
# The longest sensible decimal of the wire formats; beyond it arithmetic takes minutes.
_LONGEST_DECIMAL = 1000
_EXACT = Context(prec=_LONGEST_DECIMAL + 100)
# All digits of the smallest 64-bit float take 1,077 characters, with sign and point.
_LONGEST_FLOAT = 1_100

_BLANKS = "".join(map(chr, (*range(0x21), 0x7F)))
_WHOLE = re.compile(r"[+-]?[0-9]+\Z")
# Digits have one place to match: two would take time that grows with the square of a text's length.
_FLOAT = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?0*[0-9]{1,4})?[dDfF]?\Z")
_DECIMAL = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?0*[0-9]{1,2})?\Z")
_INTEGRAL = re.compile(r"[0-9]{1,20}([.][0-9]{0,18})?([eE][+-]?[0-9]{1,2})?\Z")
_TRUE, _FALSE = {"t", "true", "y", "yes", "1"}, {"f", "false", "n", "no", "0"}

_DAY = r"((?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2})"
_CLOCK = r"((?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9])"
# SQL Server's zones end at 14 hours.
_OFFSET = r"([+-](?:(?:0[0-9]|1[0-3]):[0-5][0-9]|14:00)|Z)"
_GUID = re.compile(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}\Z")


def _fraction(digits: int) -> str:
    """Pattern of a fraction of a second: at most nine digits, of which those after `digits` are zeros."""
    return rf"(?:[.](?![0-9]{{10}})([0-9]{{0,{digits}}})0*)?"


def whole(text: str, least: int, most: int) -> int | None:
    """Parses a whole number from `least` to `most`."""
    text = text.strip(_BLANKS)
    if not _WHOLE.match(text) or len(text) > _LONGEST_DECIMAL:
        return None
    number = int(text)
    return number if least <= number <= most else None


def count(text: str) -> int | None:
    """Parses a 64-bit number, not negative, from digits or an integral float (`2.0`, `1E1`)."""
    number = scaled(Decimal(text), 38, 18) if _INTEGRAL.match(text) else None
    return int(number) if number is not None and number % 1 == 0 and number < 2**63 else None


def boolean(text: str) -> bool | None:
    text = text.strip(_BLANKS).lower()
    return True if text in _TRUE else False if text in _FALSE else None


def double(text: str) -> float | None:
    """Parses a 64-bit float. Returns None also for more digits than it keeps, or if it would be infinity."""
    number = _double(text)
    return None if number is None or not _is_kept(text, number, pa.float64()) else number


def _double(text: str) -> float | None:
    """Returns the finite 64-bit float nearest to the text's number."""
    text = text.strip(_BLANKS)
    if len(text) > _LONGEST_FLOAT or not _FLOAT.match(text):
        return None
    number = float(text.rstrip("dDfF"))
    return number if np.isfinite(number) else None


def _is_kept(text: str, number: float, kind: pa.DataType) -> bool:
    return float_digits.is_kept(text.strip(_BLANKS).rstrip("dDfF"), number, kind)


def real(text: str) -> float | None:
    """Like `double`, but with 32 bits."""
    number = _double(text)
    if number is None:
        return None
    with np.errstate(over="ignore"):
        near = float(np.float32(number))
    return near if np.isfinite(near) and _is_kept(text, near, pa.float32()) else None


def decimal(text: str, precision: int, scale: int) -> Decimal | None:
    """Parses a decimal. Returns None also if digits beyond the scale would be rounded away."""
    if len(text) > _LONGEST_DECIMAL:
        return None
    text = text.strip(_BLANKS)
    if not _DECIMAL.match(text):
        return None
    return scaled(Decimal(text), precision, scale)


def scaled(number: Decimal, precision: int, scale: int) -> Decimal | None:
    """Returns the number with exactly `scale` places, or None if it has more places or too many digits."""
    try:
        fitted = _EXACT.quantize(number, Decimal(1).scaleb(-scale))
    except InvalidOperation:
        return None
    digits = len(fitted.as_tuple().digits) if fitted else 0
    return fitted if fitted == number and digits <= precision else None


def of_unscaled(number: int, precision: int, scale: int) -> Decimal | None:
    """Returns the number with its last `scale` digits after the point."""
    return scaled(_EXACT.scaleb(Decimal(number), -scale), precision, scale)


def guid(text: str) -> str | None:
    return text.upper() if _GUID.match(text) else None


def days(text: str) -> int | None:
    """Parses `2026-08-07` as days since 1970."""
    match = re.match(_DAY + r"\Z", text)
    return _days(match[1]) if match else None


def _days(text: str) -> int | None:
    try:
        return date.fromisoformat(text).toordinal() - 719_163
    except ValueError:
        return None


def clock(text: str, digits: int) -> str | None:
    """Parses `16:25:00.883` and returns `16:25:00.8830000`, with exactly `digits` digits of a second."""
    match = re.match(_CLOCK + _fraction(digits) + r"\Z", text)
    return _clock(match[1], match[2], digits) if match else None


def _clock(whole_seconds: str, fraction: str | None, digits: int) -> str:
    return f"{whole_seconds}.{fraction or '':0<{digits}}" if digits else whole_seconds


def micros(text: str, digits: int) -> int | None:
    """Parses `2026-08-07 16:25:00.883`, also with a T, as microseconds since 1970."""
    match = re.match(_DAY + "[ T]" + _CLOCK + _fraction(digits) + r"\Z", text)
    day = _days(match[1]) if match else None
    if match is None or day is None:
        return None
    seconds = int(match[2][:2]) * 3600 + int(match[2][3:5]) * 60 + int(match[2][6:8])
    return day * MICROS_A_DAY + seconds * 1_000_000 + int(f"{match[3] or '':0<6}"[:6])


def ticks(text: str) -> int | None:
    """Parses a `datetime`, which counts thirds of 10 ms: .8833333 in a text is .883 in SQL Server's own.

    Returns None if more than three digits are no such third: the column cannot have held them.
    """
    microseconds, fraction = micros(text, 9), text.partition(".")[2].rstrip("0")
    if microseconds is None or (len(fraction) > 3 and not is_third(int(fraction), len(fraction))):
        return None
    microseconds = (microseconds + 500) // 1000 * 1000
    return microseconds if microseconds <= MICROS[1] else None


def is_third(fraction: Any, digits: int) -> Any:
    """Returns whether a fraction of a second is a third of 10 ms, rounded or cut to `digits` digits.

    One unit beside it is another time: .9999 of a `datetime2(4)` would become the next second.
    `fraction`: a whole number, or an array of them.
    """
    units = 10**digits
    nearest = (fraction * 300 + units // 2) // units
    return (nearest * units // 300 <= fraction) & (fraction <= (nearest * units + 150) // 300)


def day_and_clock(text: str, digits: int) -> str | None:
    """Parses `2026-08-07 16:25:00.8833333` as text, for more digits than a timestamp has."""
    match = re.match(_DAY + "[ T]" + _CLOCK + _fraction(digits) + r"\Z", text)
    if match is None or _days(match[1]) is None:
        return None
    return f"{match[1]} {_clock(match[2], match[3], digits)}"


def with_offset(text: str, digits: int) -> str | None:
    """Converts `2018-07-13 12:23:45.456 +11:00` to `2018-07-13T12:23:45.4560000+11:00`; keeps the offset."""
    match = re.match(_DAY + "[ T]" + _CLOCK + _fraction(digits) + " ?" + _OFFSET + r"\Z", text)
    if match is None or _days(match[1]) is None:
        return None
    offset = "+00:00" if match[4] in {"Z", "-00:00"} else match[4]
    return f"{match[1]}T{_clock(match[2], match[3], digits)}{offset}"


def char(text: str, length: int) -> str:
    """Pads ASCII text to the column's length, as SQL Server does.

    A `char` counts bytes of its code page, which is unknown: only for ASCII do they equal characters.
    """
    return text.ljust(length) if text.isascii() else text


def nchar(text: str, length: int) -> str:
    """Pads text to the column's length, which an `nchar` counts in UTF-16 units."""
    units = len(text.encode("utf-16-le")) // 2
    return text + " " * (length - units) if len(text) < length else text


def _datetime(sql: SqlType) -> Reader:
    digits = sql.fraction_digits
    if sql.base == "datetime":
        return ticks
    if sql.spark == "string":
        return lambda text: day_and_clock(text, digits)
    return lambda text: micros(text, digits)


def _number(sql: SqlType) -> Reader:
    if sql.spark.startswith("decimal"):
        lake = SqlType.parse(sql.spark)
        return lambda text: decimal(text, lake.length or 0, lake.scale or 0)
    least, most = whole_range(sql)
    return lambda text: whole(text, least, most)


def whole_range(sql: SqlType) -> tuple[int, int]:
    """Returns the least and the greatest value of a type of whole numbers."""
    if sql.base == "tinyint":
        return 0, 255
    bits = {"smallint": 16, "int": 32, "bigint": 64}[sql.spark]
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def reader(sql: SqlType) -> Reader:
    """Returns the reader of a type's texts, into the lake's type. Binary types have no single text form."""
    return ranges.reading(sql, _reader(sql))


def _reader(sql: SqlType) -> Reader:
    length, digits = sql.length or 1, sql.fraction_digits
    of_base: dict[str, Reader] = {
        "uniqueidentifier": guid,
        "char": lambda text: char(text, length),
        "nchar": lambda text: nchar(text, length),
        "date": days,
        "time": lambda text: clock(text, digits),
        "datetimeoffset": lambda text: with_offset(text, digits),
        "bit": boolean,
        "real": real,
        "float": double,
    }
    if sql.base in of_base:
        return of_base[sql.base]
    if sql.base in {"datetime", "smalldatetime", "datetime2"}:
        return _datetime(sql)
    return str if sql.spark == "string" else _number(sql)
