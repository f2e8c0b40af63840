"""Columns whose cells are all text, of dialects that write every value so: whole columns at once.

A text in the form in which it nearly always is goes by Arrow's casts, after a pattern that lets pass only
what the reader of a single text (`sql_text`) takes too; any other text is read by that reader.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.kernels import cells, float_digits
from changeledger.kernels.arrow import arrow_type, numbers, valid
from changeledger.kernels.cells import Cells, FromTexts
from changeledger.kernels.sql_text import DAYS, MICROS, Reader
from changeledger.model.sql_type import SqlType

_DAY = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
_FLOAT = r"^-?[0-9]{1,17}(\.[0-9]{1,17})?([eE][+-]?[0-9]{1,3})?$"
# Of a second, the digits of a `datetime`, which counts thirds of 10 ms: .8833333 is .883 in its own text.
_THIRDS = r"\.[0-9]{2}(?:3{2,7}|6{1,6}7)"
# Where the parts of `2026-08-07 16:25:00.8833333` begin.
_AT_CLOCK, _AT_FRACTION = 11, 20

# A column of texts that all fit a pattern as values; raises ArrowInvalid where a value is out of range.
Quick = Callable[[pa.StringArray], pa.Array]


def from_texts(sql: SqlType, read: Reader) -> FromTexts:
    """How texts of a type become its values. `read` reads one of them."""
    if sql.base in {"float", "real"}:
        return _floats(sql, read)
    conversion = _quick(sql)
    if conversion is None:
        return cells.from_texts(sql, read)
    pattern, quick = conversion
    alone = cells.one_by_one(read, arrow_type(sql.spark))

    def convert(texts: pa.StringArray) -> Cells:
        fits = pc.match_substring_regex(texts, pattern)
        try:
            if pc.all(fits).as_py() is not False:
                return cells.in_range(sql, Cells(quick(texts)))
            nothing = pa.scalar(None, pa.string())
            usual = quick(pc.if_else(fits, texts, nothing))
        except pa.ArrowInvalid:
            return alone(texts)
        others = alone(pc.if_else(fits, nothing, texts))
        return cells.in_range(sql, Cells(pc.coalesce(usual, others.values), others.unfit))

    return convert


def _floats(sql: SqlType, read: Reader) -> FromTexts:
    kind = arrow_type(sql.spark)
    alone = cells.one_by_one(read, kind)
    nothing = pa.scalar(None, pa.string())

    def convert(texts: pa.StringArray) -> Cells:
        fits = pc.match_substring_regex(texts, _FLOAT)
        values = pc.cast(pc.if_else(fits, texts, nothing), kind)
        is_usual = valid(values) & np.isfinite(numbers(values)) & ~float_digits.doubtful(texts, values)
        left = valid(texts) & ~is_usual
        if not left.any():
            return Cells(values)
        others = alone(pc.if_else(pa.array(left), texts, nothing))
        return Cells(pc.if_else(pa.array(left), others.values, values), others.unfit)

    return convert


def _quick(sql: SqlType) -> tuple[str, Quick] | None:
    """The pattern of the usual form of a type, and how it is converted; None for types without one."""
    kind = arrow_type(sql.spark)
    if sql.spark in {"smallint", "int", "bigint"}:
        return _whole(sql, kind)
    if sql.spark.startswith("decimal"):
        return _decimal(kind)
    if sql.base == "date":
        return f"^{_DAY}$", lambda texts: _from_the_year_1(pc.cast(texts, kind), DAYS[0])
    if sql.base == "time":
        digits = sql.fraction_digits
        return f"^{_CLOCK}{_fraction(digits)}$", lambda texts: _clock(texts, 0, digits)
    return _datetime(sql) if sql.base in {"datetime", "smalldatetime", "datetime2"} else None


def _fraction(digits: int) -> str:
    """Of a second, with so many digits that count, and nine at most."""
    return rf"(?:\.[0-9]{{1,{digits}}}0{{0,{9 - digits}}})?" if digits else r"(?:\.0{1,9})?"


def _whole(sql: SqlType, kind: pa.DataType) -> tuple[str, Quick]:
    if sql.base != "tinyint":
        return "^-?[0-9]{1,18}$", lambda texts: pc.cast(texts, kind)

    def tiny(texts: pa.StringArray) -> pa.Array:
        # Arrow has a type that ends where a tinyint does.
        return pc.cast(pc.cast(texts, pa.uint8()), kind)

    return "^[0-9]{1,3}$", tiny


def _decimal(kind: pa.DataType) -> tuple[str, Quick]:
    scale, before = kind.scale, kind.precision - kind.scale
    places = rf"(\.[0-9]{{1,{scale}}})?" if scale else ""
    return rf"^-?[0-9]{{1,{max(before, 1)}}}{places}$", lambda texts: pc.cast(texts, kind)


def _from_the_year_1(values: pa.Array, least: int) -> pa.Array:
    known = numbers(values)[valid(values)]
    if len(known) and int(known.min()) < least:
        raise pa.ArrowInvalid("there is no year 0")
    return values


def _datetime(sql: SqlType) -> tuple[str, Quick]:
    digits, is_in_thirds = sql.fraction_digits, sql.base == "datetime"
    fraction = f"(?:{_THIRDS}|{_fraction(digits)})" if is_in_thirds else _fraction(digits)
    pattern = f"^{_DAY}[ T]{_CLOCK}{fraction}$"
    if sql.spark == "string":
        return pattern, lambda texts: _day_and_clock(texts, digits)

    def convert(texts: pa.StringArray) -> pa.Array:
        in_micros = pc.utf8_slice_codeunits(texts, 0, _AT_FRACTION + 6)
        timestamps = _from_the_year_1(pc.cast(in_micros, pa.timestamp("us")), MICROS[0])
        return pc.round_temporal(timestamps, unit="millisecond") if is_in_thirds else timestamps

    return pattern, convert


def _day_and_clock(texts: pa.StringArray, digits: int) -> pa.Array:
    day = pc.utf8_slice_codeunits(texts, 0, 10)
    _from_the_year_1(pc.cast(day, pa.date32()), DAYS[0])
    return pc.binary_join_element_wise(day, _clock(texts, _AT_CLOCK, digits), " ")


def _clock(texts: pa.StringArray, start: int, digits: int) -> pa.Array:
    """`hh:mm:ss`, which begins at `start`, with exactly this many digits of a second."""
    seconds = pc.utf8_slice_codeunits(texts, start, start + 8)
    if not digits:
        return seconds
    part = pc.utf8_slice_codeunits(texts, start + 9, start + 9 + digits)
    return pc.binary_join_element_wise(seconds, pc.ascii_rpad(part, width=digits, padding="0"), ".")
