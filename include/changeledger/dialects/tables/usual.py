"""Texts in the form that sources nearly always write, converted a whole column at a time.

None if one text of the column is otherwise, or is no value: then each has to be looked at. What is taken
here must be what `sql_text` makes of it.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from changeledger.kernels import cells, float_digits, ranges, sql_text
from changeledger.kernels.arrow import arrow_type
from changeledger.model.sql_type import SqlType

_DAY = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
_ZONE = r"[+-](?:(?:0[0-9]|1[0-3]):[0-5][0-9]|14:00)"
_WHOLE = r"^-?[0-9]{1,18}$"
_FLOAT = r"^-?[0-9]{1,300}(?:\.[0-9]{1,300})?(?:[eE][+-]?[0-9]{1,2})?$"
_BITS = pa.array(["0", "1", "false", "true"])
_YEAR_0 = "^0000"

_Convert = Callable[[pa.StringArray, SqlType], pa.Array | None]


def converted(texts: pa.StringArray, sql: SqlType) -> pa.Array | None:
    """The values in the lake's type."""
    if texts.null_count == len(texts):
        return pa.nulls(len(texts), arrow_type(sql.spark))
    convert = _BY_BASE.get(sql.base)
    if convert is None:
        return None
    try:
        values = convert(texts, sql)
    except pa.ArrowInvalid:
        return None
    return values if values is None or ranges.outside(sql, values) is None else None


def _match(texts: pa.StringArray, pattern: str) -> bool:
    """Are all the texts so?"""
    all_match = pc.all(pc.match_substring_regex(texts, pattern), skip_nulls=True).as_py()
    return all_match is not False


def _wholes(texts: pa.StringArray, sql: SqlType) -> pa.Array | None:
    if not _match(texts, _WHOLE):
        return None
    whole_numbers = pc.cast(texts, pa.int64())
    least, most = sql_text.whole_range(sql)
    bounds = pc.min_max(whole_numbers)
    if bounds["min"].as_py() < least or bounds["max"].as_py() > most:
        return None
    return pc.cast(whole_numbers, arrow_type(sql.spark))


def _decimals(texts: pa.StringArray, sql: SqlType) -> pa.Array | None:
    kind = arrow_type(sql.spark)
    before = kind.precision - kind.scale
    fraction = rf"(?:\.[0-9]{{1,{kind.scale}}})?" if kind.scale else ""
    if not before or not _match(texts, rf"^-?[0-9]{{1,{before}}}{fraction}$"):
        return None
    return pc.cast(texts, kind)


def _doubles(texts: pa.StringArray, _: SqlType) -> pa.Array | None:
    if not _match(texts, _FLOAT):
        return None
    doubles = pc.cast(texts, pa.float64())
    is_finite = pc.all(pc.is_finite(doubles)).as_py() is not False
    return doubles if is_finite and not float_digits.doubtful(texts, doubles).any() else None


def _bits(texts: pa.StringArray, _: SqlType) -> pa.Array | None:
    at = pc.index_in(texts, value_set=_BITS)
    if at.null_count != texts.null_count:
        return None
    return pa.array([False, True, False, True]).take(at)


def _days(texts: pa.StringArray, _: SqlType) -> pa.Array | None:
    return _of_days(texts) if _match(texts, f"^{_DAY}$") else None


def _of_days(texts: pa.StringArray) -> pa.Array | None:
    """Raises ArrowInvalid if there is no such day."""
    return None if pc.any(pc.match_substring_regex(texts, _YEAR_0)).as_py() else pc.cast(texts, pa.date32())


def _have_days(texts: pa.StringArray) -> bool:
    """Do the texts begin with days? Raises ArrowInvalid if one does not."""
    return _of_days(pc.utf8_slice_codeunits(texts, 0, 10)) is not None


def _times(texts: pa.StringArray, sql: SqlType) -> pa.Array | None:
    """Points in time without a zone. A `datetime` counts thirds of 10 ms, and has three digits as text."""
    digits = sql.fraction_digits
    if sql.spark == "string":
        return _long_times(texts, digits)
    fraction = rf"(?:\.[0-9]{{1,{digits}}})?" if digits else ""
    if (
        not _match(texts, f"^{_DAY}[ T]{_CLOCK}{fraction}$")
        or _of_days(pc.utf8_slice_codeunits(texts, 0, 10)) is None
    ):
        return None
    return pc.cast(texts, pa.timestamp("us"))


def _long_times(texts: pa.StringArray, digits: int) -> pa.Array | None:
    if not _match(texts, rf"^{_DAY} {_CLOCK}\.[0-9]{{{digits}}}$"):
        return None
    return texts if _have_days(texts) else None


def _clocks(texts: pa.StringArray, sql: SqlType) -> pa.Array | None:
    digits = sql.fraction_digits
    fraction = rf"\.[0-9]{{{digits}}}" if digits else ""
    return texts if _match(texts, f"^{_CLOCK}{fraction}$") else None


def _with_offsets(texts: pa.StringArray, sql: SqlType) -> pa.Array | None:
    """As SQL Server prints them, `2018-07-13 12:23:45.4560000 +11:00`."""
    digits = sql.fraction_digits
    fraction = rf"\.[0-9]{{{digits}}}" if digits else ""
    if not _match(texts, f"^{_DAY}[ T]{_CLOCK}{fraction} ?{_ZONE}$"):
        return None
    if pc.any(pc.ends_with(texts, "-00:00")).as_py() or not _have_days(texts):
        return None
    end = 19 + (digits + 1 if digits else 0)
    day, clock = pc.utf8_slice_codeunits(texts, 0, 10), pc.utf8_slice_codeunits(texts, 11, end)
    return pc.binary_join_element_wise(day, "T", clock, pc.utf8_slice_codeunits(texts, -6), "")


def _by_cells(texts: pa.StringArray, sql: SqlType) -> pa.Array | None:
    return cells.from_texts(sql, sql_text.reader(sql))(texts).values


_BY_BASE: dict[str, _Convert] = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), _wholes),
    **dict.fromkeys(("decimal", "numeric", "money", "smallmoney"), _decimals),
    **dict.fromkeys(("datetime", "smalldatetime", "datetime2"), _times),
    **dict.fromkeys(("uniqueidentifier", "char", "nchar"), _by_cells),
    "float": _doubles,
    "bit": _bits,
    "date": _days,
    "time": _clocks,
    "datetimeoffset": _with_offsets,
}
