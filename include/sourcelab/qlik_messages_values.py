"""Qlik Replicate's types: how the metadata describes a SQL Server column, and how its values are written.

They follow the mappings of the SQL Server source and of the Kafka target's JSON format: exact numbers are
text, binary is hex digits, times are ISO text.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from sourcelab.tables import Column

_TYPES = {
    "bit": "BOOLEAN",
    "tinyint": "UINT1",
    "smallint": "INT2",
    "int": "INT4",
    "bigint": "INT8",
    "real": "REAL4",
    "float": "REAL8",
    "money": "NUMERIC",
    "decimal": "NUMERIC",
    "date": "DATE",
    "datetime": "DATETIME",
    "datetime2": "DATETIME",
    "time": "STRING",
    "datetimeoffset": "STRING",
    "uniqueidentifier": "STRING",
    "char": "STRING",
    "varchar": "STRING",
    "nvarchar": "WSTRING",
    "varbinary": "BYTES",
    "xml": "CLOB",
}
_LARGE = {"varchar": "CLOB", "nvarchar": "NCLOB", "varbinary": "BLOB"}
# The maximum lengths of types that become text.
_LENGTHS = {"time": 16, "datetimeoffset": 34, "uniqueidentifier": 36}


def is_lob(column: Column) -> bool:
    return _type(column).endswith("LOB")


def table_column(column: Column) -> dict[str, Any]:
    """Returns the column's entry in `tableColumns`, except its place in the key."""
    kind = _type(column)
    precision, scale = column.decimal or (0, 0)
    if kind == "DATETIME":
        scale = column.arguments[0] if column.arguments else 3
    length = _LENGTHS.get(column.base, 0)
    if column.base in {"char", "varchar", "nvarchar", "varbinary"} and not column.is_max:
        (length,) = column.arguments
    sizes = {"length": length, "precision": precision, "scale": scale}
    return {"ordinal": column.ordinal, "type": kind, **sizes}


def wire_value(column: Column, value: Any) -> Any:
    """Returns the JSON value of a cell."""
    writer = _WRITERS.get(column.base)
    return value if value is None or writer is None else writer(column, value)


def _type(column: Column) -> str:
    return _LARGE[column.base] if column.is_max else _TYPES[column.base]


def _number(_column: Column, value: Decimal) -> str:
    return f"{value:f}"


def _instant(column: Column, value: datetime) -> str:
    digits = column.arguments[0] if column.arguments else 3
    return value.isoformat(timespec="milliseconds" if digits == 3 else "microseconds")


def _date(_column: Column, value: date) -> str:
    return value.isoformat()


def _binary(_column: Column, value: bytes) -> str:
    return value.hex().upper()


_WRITERS: dict[str, Callable[[Column, Any], Any]] = {
    "money": _number,
    "decimal": _number,
    "date": _date,
    "datetime": _instant,
    "datetime2": _instant,
    "varbinary": _binary,
}
