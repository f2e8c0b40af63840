"""Converts a cell of an Avro record to what Qlik's JSON writes.

Counts in Avro's logical types become text of the type. Qlik annotates DATE, TIME, DATETIME, NUMERIC and UINT8
this way (Qlik's page "Kafka target data types"). Bytes become hex digits after `0x`, so that they never pass
for a number, whatever digits they have. A float stays a number, which may have lost digits, as in JSON.
"""

from __future__ import annotations

import math
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec
import numpy as np

from changeledger.kernels import sql_text
from changeledger.kernels.avro_types import Node

_EPOCH = datetime(1970, 1, 1)
_DAY = 86_400 * 10**9
_MOST_DIGITS = 38
# Decimal digits that a 32-bit float always preserves.
_EXACT_DIGITS = 6
# Nanoseconds of the units in the names of logical types.
_UNITS = {"millis": 10**6, "micros": 1000, "nanos": 1}
_POINTS = {"timestamp", "local-timestamp"}


def cell(value: Any, node: Node, is_binary: bool | None = None) -> Any:
    """Returns a value as JSON. One that is not of its logical type becomes an array, which fits no column.

    `is_binary`: whether the column is binary; None: not known. Bytes fit no other column, where their hex
    digits would be text, and a decimal does not fit a binary one, where its digits would be hex.
    """
    if value is None or isinstance(value, str):
        return value
    logical = node.properties.get("logicalType")
    if isinstance(value, bytes):
        text = _decimal(value, node) if logical == "decimal" else None
        fits = is_binary in {None, text is None}
        text = _in_hex(value) if text is None else text
        return text if fits else [text]
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if logical is None else _counted(value, str(logical))
    if isinstance(value, float):
        return _fraction(value, node)
    return msgspec.json.encode(value).decode()


def _in_hex(value: bytes) -> str:
    return f"0x{value.hex().upper()}"


def _fraction(value: float, node: Node) -> Any:
    """Returns a float as JSON. JSON has neither Infinity nor NaN, and no column has them.

    A decimal that a 32-bit float may have rounded gets all digits of the float, which are more than a decimal
    may have as a number.
    """
    if not math.isfinite(value):
        return [str(value)]
    if node.kind != "float":
        return value
    digits = str(np.float32(value))
    is_exact = len(Decimal(digits).normalize().as_tuple().digits) <= _EXACT_DIGITS
    return msgspec.Raw(digits.encode()) if is_exact else value


def _counted(value: int, logical: str) -> Any:
    kind, _, unit = logical.rpartition("-")
    if logical != "date" and not (unit in _UNITS and kind in {"time", *_POINTS}):
        return value
    try:
        if logical == "date":
            return str(date.fromordinal(value + _EPOCH.toordinal()))
        nanos = value * _UNITS[unit]
        if kind == "time" and not 0 <= nanos < _DAY:
            return [value]
        seconds, fraction = divmod(nanos, 10**9)
        moment = _EPOCH + timedelta(seconds=seconds)
    except (ValueError, OverflowError):
        # As digits it would fit a column of text, numbers or bytes.
        return [value]
    whole = moment.time().isoformat() if kind == "time" else moment.isoformat()
    return f"{whole}.{fraction:09d}".rstrip("0").removesuffix(".")


def _decimal(value: bytes, node: Node) -> str | None:
    """Converts a decimal in `bytes` or `fixed` to text, as in JSON. None: by Avro's rules it is bytes."""
    precision, scale = (node.properties.get(name) or 0 for name in ("precision", "scale"))
    number: Decimal | None = None
    is_decimal = isinstance(precision, int) and isinstance(scale, int) and 0 < precision <= _MOST_DIGITS
    if value and is_decimal:
        number = sql_text.of_unscaled(int.from_bytes(value, "big", signed=True), precision, scale)
    # An invalid annotation does not count.
    return None if number is None else f"{number:f}"
