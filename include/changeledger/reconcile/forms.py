"""When are two cells of different feeds the same value? Forms of a cell that answer by equality.

Each tool writes some types in its own way: trailing zeros, the case of a GUID, the padding of a char, the
offset of a datetimeoffset. That is a difference of representation, not of value.
"""

from __future__ import annotations

from typing import NamedTuple

from changeledger.contract import Column, SqlType


class Form(NamedTuple):
    """How the cells of one column are compared.

    `value`: SQL text with `{}` for the cell; equal results are equal values. `text`: the same, for what
    people would see; None where equal values always look alike.
    """

    value: str
    text: str | None = None


_AS_IT_IS = Form("{}")
_AS_TEXT = "CAST({} AS STRING)"
# Whole numbers and decimals; floats are compared as they are, or as text.
_EXACT = ("smallint", "int", "bigint", "decimal")


def form_of(one: Column, other: Column) -> Form:
    """The form in which the cells of a column that two feeds have are compared; either may be `one`."""
    if one.spark_type == other.spark_type:
        return _of_text(one, other) if one.spark_type == "string" else _AS_IT_IS
    if one.spark_type.startswith(_EXACT) and other.spark_type.startswith(_EXACT):
        return Form(f"CAST({{}} AS {_wide(one, other)})")
    # A point in time as text in one feed and as a timestamp in the other, or anything else.
    return Form(_without_zeros(_AS_TEXT.format("{0}")), _AS_TEXT)


def _of_text(one: Column, other: Column) -> Form:
    """Of a column that is text in both: a target may keep as a varchar what the source has as a GUID."""
    bases = {one.sql_type.base, other.sql_type.base}
    if "uniqueidentifier" in bases:
        return Form("upper({})", "{}")
    if bases & {"char", "nchar"}:
        return Form("rtrim({})", "{}")
    if "time" in bases:
        return Form(_without_zeros("{0}"), "{}")
    if "datetimeoffset" in bases:
        # The instant to the second, and its fraction, which may have more digits than Spark's types hold.
        fraction = "rtrim('0', regexp_extract({0}, '[.]([0-9]+)', 1))"
        instant = "date_trunc('SECOND', try_cast({0} AS TIMESTAMP))"
        return Form(f"coalesce(concat({instant}, '.', {fraction}), {{0}})", "{}")
    return _AS_IT_IS


def _without_zeros(text: str) -> str:
    """Without the zeros that end a fraction."""
    return f"CASE WHEN instr({text}, '.') > 0 THEN rtrim('.', rtrim('0', {text})) ELSE {text} END"


def _wide(one: Column, other: Column) -> str:
    scales = [SqlType.parse(c.spark_type).scale or 0 for c in (one, other) if c.spark_type.startswith("dec")]
    return f"DECIMAL(38,{max(scales, default=0)})"
