"""When are two cells of one column the same value? Forms of a cell that answer by equality.

Each tool writes some types in its own way: trailing zeros, the case of a GUID, the padding of a char, the
offset of a datetimeoffset. That is a difference of representation, not of value.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.contract import Column
from changeledger.kernels.arrow import Bools
from changeledger.kernels.images import differs

_POINT_IN_TIME = (
    r"^(?P<day>[0-9]{4}-[0-9]{2}-[0-9]{2})[ T](?P<clock>[0-9]{2}:[0-9]{2}:[0-9]{2})"
    r"(?:[.](?P<fraction>[0-9]+))? ?(?P<zone>[+-][0-9]{2}:[0-9]{2}|Z)$"
)


def differ(one: pa.Array, other: pa.Array, column: Column) -> Bools:
    """Are the cells of each row different values? Two NULLs are equal, NULL and a value are not."""
    found = differs(one, other)
    form = _form(column)
    rows = np.flatnonzero(found)
    if form is None or not len(rows):
        return found
    at = pa.array(rows)
    found[rows] = differs(form(one.take(at)), form(other.take(at)))
    return found


def _form(column: Column) -> Callable[[pa.StringArray], pa.StringArray] | None:
    """None: cells that are written differently are different values."""
    if column.spark_type != "string":
        return None
    return {
        "uniqueidentifier": pc.utf8_upper,
        "char": _unpadded,
        "nchar": _unpadded,
        "time": _without_zeros,
        "datetimeoffset": _instant,
    }.get(column.sql_type.base)


def _unpadded(texts: pa.StringArray) -> pa.StringArray:
    return pc.utf8_rtrim(texts, characters=" ")


def _without_zeros(texts: pa.StringArray) -> pa.StringArray:
    """Without the zeros that end a fraction."""
    trimmed = pc.utf8_rtrim(pc.utf8_rtrim(texts, characters="0"), characters=".")
    return pc.if_else(pc.match_substring(texts, "."), trimmed, texts)


def _instant(texts: pa.StringArray) -> pa.StringArray:
    """The instant to the second, and its fraction, which may have more digits than a timestamp holds."""
    parts = pc.extract_regex(texts, _POINT_IN_TIME)
    day, clock, fraction, zone = (pc.struct_field(parts, [at]) for at in range(4))
    written = pc.binary_join_element_wise(pc.binary_join_element_wise(day, clock, " "), zone, "")
    seconds = pc.cast(pc.cast(written, pa.timestamp("s", tz="UTC")), pa.int64())
    digits = pc.utf8_rtrim(pc.fill_null(fraction, ""), characters="0")
    return pc.coalesce(pc.binary_join_element_wise(pc.cast(seconds, pa.string()), digits, "."), texts)
