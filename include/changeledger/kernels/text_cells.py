"""Converts whole columns of text, for dialects that write every value as text.

Arrow casts texts in the common form. A pattern selects them; it matches only what the reader of a single text
(`sql_text`) accepts, too. That reader reads all other texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.kernels import cells, float_digits, sql_text
from changeledger.kernels.arrow import arrow_type, numbers, valid
from changeledger.kernels.cells import Cells, FromTexts
from changeledger.kernels.sql_text import DAYS, MICROS, Reader
from changeledger.model.sql_type import SqlType

_DAY = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
_FLOAT = r"^-?[0-9]{1,17}(\.[0-9]{1,17})?([eE][+-]?[0-9]{1,3})?$"
# The fraction of a `datetime`, which counts thirds of 10 ms: .8833333 is .883 in SQL Server's own text.
_THIRDS = r"\.[0-9]{2}(?:3{2,7}|6{1,6}7)"
# Where the whole seconds of `2026-08-07 16:25:00.8833333` end.
_SECONDS_END = 19

_GUID = r"^[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}$"
_OFFSET = r" ?(?:[+-](?:(?:0[0-9]|1[0-3]):[0-5][0-9]|14:00)|Z)$"
_BITS = pa.array(["0", "1", "false", "true"])
_DATE_AND_CLOCK = {"datetime", "smalldatetime", "datetime2"}
_MIDNIGHT = re.compile(r"(.{10})[T ]00:00(:00([.]0*)?)?Z?\Z")

# Returns which texts are in the common form.
Fits = Callable[[pa.StringArray], pa.BooleanArray]
# Converts texts that are all in the common form; raises ArrowInvalid if a value is out of range.
Quick = Callable[[pa.StringArray], pa.Array]


def lenient_reader(sql: SqlType) -> Reader:
    """Like `sql_text.reader`, for writers that add a meaningless Z or midnight, or leave zeros out."""
    read, form = sql_text.reader(sql), _FORMS.get("datetime" if sql.base in _DATE_AND_CLOCK else sql.base)
    return read if form is None else lambda text: read(form(text))


def _date_and_clock(text: str) -> str:
    text = text.removesuffix("Z")
    return text + {10: " 00:00:00", 16: ":00"}.get(len(text), "")


_FORMS: dict[str, Callable[[str], str]] = {
    "datetime": _date_and_clock,
    "date": lambda text: _MIDNIGHT.sub(r"\1", text) if len(text) > 10 else text,
    # PostgreSQL prints offsets of whole hours without minutes.
    "datetimeoffset": lambda text: f"{text}:00" if text[-3:-2] in {"+", "-"} else text,
}


def from_texts(sql: SqlType, read: Reader) -> FromTexts:
    """Returns the conversion of a type's texts to its values. `read` reads a single text."""
    if sql.base in {"float", "real"}:
        return _floats(sql, read)
    conversion = _quick(sql)
    alone = cells.one_by_one(read, arrow_type(sql.spark))
    if conversion is None:
        return Cells if sql.spark == "string" else alone
    fits_of, quick = conversion

    def convert(texts: pa.StringArray) -> Cells:
        fits = fits_of(texts)
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
        is_unusual = valid(texts) & ~is_usual
        if not is_unusual.any():
            return Cells(values)
        others = alone(pc.if_else(pa.array(is_unusual), texts, nothing))
        return Cells(pc.if_else(pa.array(is_unusual), others.values, values), others.unfit)

    return convert


def _quick(sql: SqlType) -> tuple[Fits, Quick] | None:
    """Returns how to recognize and convert the common form of a type, or None for types without one."""
    if sql.base in {"char", "nchar"}:
        length = sql.length or 1
        return pc.string_is_ascii, lambda texts: pc.ascii_rpad(texts, width=length, padding=" ")
    conversion = _of_pattern(sql)
    if conversion is None:
        return None
    pattern, quick = conversion
    return partial(pc.match_substring_regex, pattern=pattern), quick


def _of_pattern(sql: SqlType) -> tuple[str, Quick] | None:  # noqa: PLR0911 - a pattern for each type
    kind, digits = arrow_type(sql.spark), sql.fraction_digits
    if sql.spark in {"smallint", "int", "bigint"}:
        return _whole(sql, kind)
    if sql.spark.startswith("decimal"):
        return decimal_pattern(kind), lambda texts: pc.cast(texts, kind)
    if sql.base == "bit":
        bits = pa.array([False, True, False, True])
        return "^(?:0|1|false|true)$", lambda texts: bits.take(pc.index_in(texts, value_set=_BITS))
    if sql.base == "uniqueidentifier":
        return _GUID, pc.ascii_upper
    if sql.base == "date":
        return f"^{_DAY}$", lambda texts: _from_the_year_1(pc.cast(texts, kind), DAYS[0])
    if sql.base == "time":
        return f"^{_CLOCK}{_fraction(digits)}$", lambda texts: _padded(texts, 8, digits)
    if sql.base == "datetimeoffset":
        return f"^{_DAY}[ T]{_CLOCK}{_fraction(digits)}{_OFFSET}", lambda texts: _with_offsets(texts, digits)
    return _datetime(sql) if sql.base in _DATE_AND_CLOCK else None


def _fraction(digits: int) -> str:
    """Pattern of a fraction of a second: at most nine digits, of which those after `digits` are zeros."""
    return rf"(?:\.[0-9]{{1,{digits}}}0{{0,{9 - digits}}})?" if digits else r"(?:\.0{1,9})?"


def _whole(sql: SqlType, kind: pa.DataType) -> tuple[str, Quick]:
    if sql.base == "tinyint":
        # A uint8 has its range.
        return "^[0-9]{1,3}$", lambda texts: pc.cast(pc.cast(texts, pa.uint8()), kind)
    return "^-?[0-9]{1,18}$", lambda texts: pc.cast(texts, kind)


def decimal_pattern(kind: pa.DataType) -> str:
    """Returns the pattern of decimals in the common form that fit the type.

    Arrow casts 4 to 0.59717... in a decimal(38,38), whose 128 bits are too few for it.
    """
    scale, before = kind.scale, kind.precision - kind.scale
    whole = f"[0-9]{{1,{before}}}" if before else "0"
    return rf"^-?{whole}" + (rf"(\.[0-9]{{1,{scale}}})?$" if scale else "$")


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
        in_micros = pc.utf8_slice_codeunits(texts, 0, _SECONDS_END + 7)
        timestamps = _from_the_year_1(pc.cast(in_micros, pa.timestamp("us")), MICROS[0])
        return pc.round_temporal(timestamps, unit="millisecond") if is_in_thirds else timestamps

    return pattern, convert


def _day_and_clock(texts: pa.StringArray, digits: int) -> pa.Array:
    _from_the_year_1(pc.cast(pc.utf8_slice_codeunits(texts, 0, 10), pa.date32()), DAYS[0])
    return _padded(pc.replace_substring(texts, "T", " "), _SECONDS_END, digits)


def _with_offsets(texts: pa.StringArray, digits: int) -> pa.Array:
    texts = pc.replace_substring(texts, "Z", "+00:00")
    local, offset = pc.utf8_slice_codeunits(texts, 0, -6), pc.utf8_slice_codeunits(texts, -6)
    written = _day_and_clock(pc.ascii_rtrim(local, " "), digits)
    offset = pc.if_else(pc.equal(offset, "-00:00"), "+00:00", offset)
    return pc.binary_join_element_wise(pc.replace_substring(written, " ", "T"), offset, "")


def _padded(texts: pa.StringArray, seconds_end: int, digits: int) -> pa.Array:
    """Returns times with exactly `digits` digits of a second; whole seconds end at `seconds_end`."""
    if not digits:
        return pc.utf8_slice_codeunits(texts, 0, seconds_end)
    lengths, end = pc.binary_length(texts), seconds_end + 1 + digits
    if pc.all(pc.equal(lengths, end)).as_py() is not False:
        return texts
    is_whole = pc.equal(lengths, seconds_end)
    texts = pc.if_else(is_whole, pc.binary_join_element_wise(texts, ".", ""), texts)
    return pc.ascii_rpad(pc.utf8_slice_codeunits(texts, 0, end), width=end, padding="0")
