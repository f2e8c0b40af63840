"""Decides whether two cells are the same value, by converting them to forms that can be compared.

Each tool writes some types in its own way: trailing zeros, the case of a GUID, the padding of a char, the
offset of a datetimeoffset. Such differences are differences of representation, not of value.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.kernels import display
from changeledger.kernels.arrow import Bools
from changeledger.kernels.images import differs
from changeledger.kernels.rows import unchanged
from changeledger.model.contract import Column
from changeledger.model.sql_type import SqlType

Conversion = Callable[[pa.Array], pa.Array]

_POINT_IN_TIME = (
    r"^(?P<day>[0-9]{4}-[0-9]{2}-[0-9]{2})[ T](?P<clock>[0-9]{2}:[0-9]{2})(?P<second>:[0-9]{2})?"
    r"(?:[.](?P<fraction>[0-9]+))? ?(?P<zone>Z|(?P<hours>[+-][0-9]{2})(?::?(?P<minutes>[0-9]{2}))?)?$"
)
_MIDNIGHT = "^([0-9]{4}-[0-9]{2}-[0-9]{2})[ T]00:00:00$"
# Whole numbers and decimals; floats are compared as they are, or as text.
EXACT = ("smallint", "int", "bigint", "decimal")


class Form(NamedTuple):
    """How the cells of one column are compared.

    `value`: cells with equal results are equal values; None: compare the cells as they are. `text`: the same
    for what people see; None if equal values always look alike. Both keep NULL.
    """

    value: Conversion | None = None
    text: Conversion | None = None


def form_of(column: Column, other: Column) -> Form:
    """Returns the form in which to compare the cells of a column that two feeds have, in either order."""
    if column.spark_type == other.spark_type:
        return _of_one_type(column, other)
    if column.spark_type.startswith(EXACT) and other.spark_type.startswith(EXACT):
        return Form(partial(_number, scale=max(_scale(column), _scale(other))))
    # For example a point in time that is text in one feed and a timestamp in the other, or a day as its
    # midnight.
    return Form(_plainly_printed, display.texts)


def _of_one_type(column: Column, other: Column) -> Form:
    """Returns the form of a column of one type in the lake: a target may store a GUID as a varchar."""
    bases = {column.sql_type.base, other.sql_type.base}
    if "uniqueidentifier" in bases:
        return Form(pc.utf8_upper, unchanged)
    if bases & {"char", "nchar"}:
        return Form(_unpadded, unchanged)
    if "time" in bases:
        return Form(without_zeros, unchanged)
    return Form(_instant, unchanged) if "datetimeoffset" in bases else Form()


def differ(cells: pa.Array, other: pa.Array, column: Column) -> Bools:
    """Returns which rows have different values. Two NULLs are equal; NULL and a value are not."""
    unequal = differs(cells, other)
    value = form_of(column, column).value
    rows = np.flatnonzero(unequal)
    if value is None or not len(rows):
        return unequal
    at = pa.array(rows)
    unequal[rows] = differs(value(cells.take(at)), value(other.take(at)))
    return unequal


def _unpadded(texts: pa.StringArray) -> pa.StringArray:
    return pc.utf8_rtrim(texts, characters=" ")


def without_zeros(texts: pa.StringArray) -> pa.StringArray:
    """Strips the trailing zeros of a fraction."""
    trimmed = pc.utf8_rtrim(pc.utf8_rtrim(texts, characters="0"), characters=".")
    return pc.if_else(pc.match_substring(texts, "."), trimmed, texts)


def _plainly_printed(cells: pa.Array) -> pa.StringArray:
    """Formats cells without trailing zeros of a fraction, without midnight, and floats without exponents."""
    texts = _digits(cells) if pa.types.is_floating(cells.type) else display.texts(cells)
    return pc.replace_substring_regex(without_zeros(texts), _MIDNIGHT, r"\1")


def _digits(floats: pa.FloatingPointArray) -> pa.StringArray:
    """Formats floats as decimals: `10000000` for 1.0E7, and 0 for -0."""
    texts = display.texts(pc.add(floats, pa.scalar(0, floats.type)))
    has_exponent = pc.match_substring(texts, "E")
    plain = [f"{Decimal(text):f}" for text in texts.filter(has_exponent).to_pylist()]
    return pc.replace_with_mask(texts, has_exponent, pa.array(plain, pa.string()))


def _scale(column: Column) -> int:
    return SqlType.parse(column.spark_type).scale or 0


def _number(cells: pa.Array, scale: int) -> pa.StringArray:
    """Formats numbers with `scale` digits after the point."""
    return pc.cast(pc.cast(cells, pa.decimal256(76, scale)), pa.string())


def _instant(texts: pa.StringArray) -> pa.StringArray:
    """Converts to seconds since 1970 and the fraction, which may have more digits than a timestamp holds.

    A text without an offset is UTC. A text that is not a time stays as it is.
    """
    fields = dict(enumerate(pc.extract_regex(texts, _POINT_IN_TIME).flatten()))
    day, clock, second, fraction, zone, hours, minutes = (fields[at] for at in range(7))
    of_second = pc.if_else(pc.equal(second, ""), ":00", second)
    of_minutes = pc.if_else(pc.equal(minutes, ""), "00", minutes)
    has_offset = pc.not_equal(hours, "")
    offset = pc.if_else(has_offset, pc.binary_join_element_wise(hours, of_minutes, ":"), "Z")
    date = pc.binary_join_element_wise(day, clock, " ")
    written = pc.binary_join_element_wise(date, of_second, offset, "")
    seconds = _seconds(pc.if_else(pc.is_valid(zone), written, None))
    digits = pc.utf8_rtrim(fraction, characters="0")
    return pc.coalesce(pc.binary_join_element_wise(pc.cast(seconds, pa.string()), digits, "."), texts)


def _seconds(written: pa.StringArray) -> pa.Int64Array:
    """Parses seconds since 1970; NULL for a day or a time that does not exist."""
    kind = pa.timestamp("s", tz="UTC")
    try:
        return pc.cast(pc.cast(written, kind), pa.int64())
    except pa.ArrowInvalid:
        if len(written) == 1:
            return pa.nulls(1, pa.int64())
    return pa.concat_arrays([_seconds(written.slice(at, 1)) for at in range(len(written))])
