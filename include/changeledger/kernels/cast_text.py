"""Formats values as Spark's casts do, because stored values were read by way of those casts."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.kernels import masks


def as_text(values: pa.Array) -> pa.StringArray:
    """Evaluates CAST(value AS STRING); bytes are decoded as UTF-8."""
    kind = values.type
    if pa.types.is_string(kind):
        return values
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_date(kind):
        return pc.cast(values, pa.string())
    if pa.types.is_timestamp(kind):
        return _times(values)
    if pa.types.is_decimal(kind):
        return _each(values, lambda number: f"{number:f}")
    if pa.types.is_floating(kind):
        return _floats(values)
    return _each(values, lambda value: value.decode("utf-8", "replace"))


def shown(values: pa.Array) -> pa.StringArray:
    """Like `as_text`, but formats bytes as 0x and hex."""
    if not pa.types.is_binary(values.type):
        return as_text(values)
    return pc.binary_join_element_wise("0x", masks.to_hex(values), "")


def _times(values: pa.Array) -> pa.StringArray:
    """Formats as `2026-08-07 16:25:00.883`, in UTC, without the trailing zeros of the six-digit fraction."""
    texts = pc.cast(values.view(pa.int64()).view(pa.timestamp("us")), pa.string())
    return pc.replace_substring_regex(texts, r"(\.\d*[1-9])0+$|\.0+$", r"\1")


def _floats(values: pa.Array) -> pa.StringArray:
    """Formats floats as Java does. Arrow casts plain ones, but writes whole numbers without `.0`."""
    size = pc.abs(values)
    plain = pc.and_(pc.greater_equal(size, 0.001), pc.less(size, 10_000_000.0))
    if pc.all(pc.or_(plain, pc.equal(size, 0.0)), skip_nulls=True).as_py() is False:
        return _each(values, float32 if values.type == pa.float32() else double)
    texts = pc.cast(values, pa.string())
    has_point = pc.match_substring(texts, ".")
    return pc.if_else(has_point, texts, pc.binary_join_element_wise(texts, ".0", ""))


def _each(values: pa.Array, form: Callable[[Any], str]) -> pa.StringArray:
    return pa.array([None if value is None else form(value) for value in values.to_pylist()], pa.string())


def double(number: float) -> str:
    """Formats as Java's `Double.toString`: `0.001`, `1.0E7`, the fewest digits that identify the number."""
    return _java(number, repr(number))


def float32(number: float) -> str:
    """Formats as Java's `Float.toString`."""
    return _java(number, str(np.float32(number)))


def _java(number: float, digits: str) -> str:
    if not np.isfinite(number):
        return "NaN" if np.isnan(number) else "Infinity" if number > 0 else "-Infinity"
    sign = "-" if np.signbit(number) else ""
    exact = abs(Decimal(digits))
    if exact == 0:
        return f"{sign}0.0"
    if Decimal("0.001") <= exact < 10_000_000:
        plain = f"{exact.normalize():f}"
        return sign + (plain if "." in plain else f"{plain}.0")
    first, *rest = exact.normalize().as_tuple().digits
    if not rest:
        # Java writes at least two digits, even where one identifies a number with few bits: 4.9E-324.
        exact = Decimal(f"{abs(number):.1e}")
        first, *rest = exact.normalize().as_tuple().digits
    return f"{sign}{first}.{''.join(map(str, rest)) or '0'}E{exact.adjusted()}"
