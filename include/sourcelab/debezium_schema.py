"""Debezium's types: how the schema block describes a SQL Server column, and how its values are written.

Temporal types use the mode `adaptive`, in which the unit follows the column's precision. Exact numbers use
the mode `precise`: base64 of the unscaled value's big-endian two's complement, with the scale in the schema.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from sourcelab.tables import Column, Table
from sourcelab.values import real_text

_EPOCH = datetime(1970, 1, 1)
_TYPES = {
    "bit": "boolean",
    "tinyint": "int16",
    "smallint": "int16",
    "int": "int32",
    "bigint": "int64",
    "real": "float",
    "float": "double",
    "varbinary": "bytes",
}
_SNAPSHOT_MARKERS = "true,first,first_in_data_collection,last_in_data_collection,false,last,incremental"

_Schema = dict[str, Any]


def wire_value(column: Column, value: Any) -> Any:
    """Returns a cell's JSON value. Text stays unchanged, and so does the placeholder for an unknown value."""
    writer = _WRITERS.get(column.base)
    return value if value is None or writer is None else writer(column, value)


def key_schema(table: Table, topic: str) -> _Schema:
    columns = {c.name: c for c in table.columns}
    fields = [_column(columns[name]) for name in table.key]
    return {"type": "struct", "fields": fields, "optional": False, "name": f"{topic}.Key"}


def envelope_schema(table: Table, topic: str) -> _Schema:
    row = {"type": "struct", "fields": [_column(c) for c in table.columns], "optional": True}
    row["name"] = f"{topic}.Value"
    fields = [
        row | {"field": "before"},
        row | {"field": "after"},
        _source(),
        _transaction(),
        _field("op", "string", optional=False),
        *(_field(name, "int64") for name in ("ts_ms", "ts_us", "ts_ns")),
    ]
    return {"type": "struct", "fields": fields, "optional": False, "name": f"{topic}.Envelope", "version": 2}


def _column(column: Column) -> _Schema:
    kind, rest = _TYPES.get(column.base, "string"), {}
    if column.decimal is not None:
        precision, scale = column.decimal
        kind = "bytes"
        rest = {
            "name": "org.apache.kafka.connect.data.Decimal",
            "version": 1,
            "parameters": {"scale": str(scale), "connect.decimal.precision": str(precision)},
        }
    elif column.base in {"date", "time", "datetime", "datetime2", "datetimeoffset", "xml"}:
        kind, name = {
            "date": ("int32", "io.debezium.time.Date"),
            "time": ("int32", "io.debezium.time.Time"),
            "datetimeoffset": ("string", "io.debezium.time.ZonedTimestamp"),
            "xml": ("string", "io.debezium.data.Xml"),
        }.get(column.base, ("int64", f"io.debezium.time.{'Micro' if _is_micro(column) else ''}Timestamp"))
        rest = {"name": name, "version": 1}
    return {"type": kind, "optional": column.nullable, **rest, "field": column.name}


def _source() -> _Schema:
    snapshot = {
        "type": "string",
        "optional": True,
        "name": "io.debezium.data.Enum",
        "version": 1,
        "parameters": {"allowed": _SNAPSHOT_MARKERS},
        "default": "false",
        "field": "snapshot",
    }
    fields = [
        *(_field(name, "string", optional=False) for name in ("version", "connector", "name")),
        _field("ts_ms", "int64", optional=False),
        snapshot,
        _field("db", "string", optional=False),
        _field("sequence", "string"),
        _field("ts_us", "int64"),
        _field("ts_ns", "int64"),
        _field("schema", "string", optional=False),
        _field("table", "string", optional=False),
        _field("change_lsn", "string"),
        _field("commit_lsn", "string"),
        _field("event_serial_no", "int64"),
    ]
    name = "io.debezium.connector.sqlserver.Source"
    return {"type": "struct", "fields": fields, "optional": False, "name": name, "field": "source"}


def _transaction() -> _Schema:
    fields = [
        _field("id", "string", optional=False),
        _field("total_order", "int64", optional=False),
        _field("data_collection_order", "int64", optional=False),
    ]
    block = {"type": "struct", "fields": fields, "optional": True, "name": "event.block", "version": 1}
    return block | {"field": "transaction"}


def _field(name: str, kind: str, optional: bool = True) -> _Schema:
    return {"type": kind, "optional": optional, "field": name}


def _struct(name: str, field: _Schema) -> _Schema:
    return {"type": "struct", "fields": [field], "optional": False, "name": name}


HEARTBEAT_KEY = _struct(
    "io.debezium.connector.common.ServerNameKey", _field("serverName", "string", optional=False)
)
HEARTBEAT_VALUE = _struct("io.debezium.connector.common.Heartbeat", _field("ts_ms", "int64", optional=False))


def _is_micro(column: Column) -> bool:
    return column.base == "datetime2" and column.arguments[0] > 3


def _decimal(_column: Column, value: Decimal) -> str:
    sign, digits, _ = value.as_tuple()
    units = int("".join(map(str, digits))) * (-1 if sign else 1)
    # As few bytes as leave room for the sign, as Java's BigInteger does.
    length = (units if units >= 0 else ~units).bit_length() // 8 + 1
    return base64.b64encode(units.to_bytes(length, signed=True)).decode()


def _binary(_column: Column, value: bytes) -> str:
    return base64.b64encode(value).decode()


def _date(_column: Column, value: date) -> int:
    return value.toordinal() - _EPOCH.toordinal()


def _instant(column: Column, value: datetime) -> int:
    unit = timedelta(microseconds=1) if _is_micro(column) else timedelta(milliseconds=1)
    return (value - _EPOCH) // unit


def _time(_column: Column, value: str) -> int:
    hours, minutes, seconds = value.split(":")
    return (int(hours) * 60 + int(minutes)) * 60_000 + int(seconds.replace(".", ""))


def _zoned(_column: Column, value: str) -> str:
    """Formats like Java: without trailing zeros in the fraction, and with Z for UTC."""
    clock = value[:-6].rstrip("0").rstrip(".") if "." in value else value[:-6]
    return clock + ("Z" if value.endswith("+00:00") else value[-6:])


def _real(_column: Column, value: float) -> float:
    """Rounds like Java's float output."""
    return float(real_text(value))


_WRITERS: dict[str, Callable[[Column, Any], Any]] = {
    "decimal": _decimal,
    "money": _decimal,
    "varbinary": _binary,
    "date": _date,
    "datetime": _instant,
    "datetime2": _instant,
    "time": _time,
    "datetimeoffset": _zoned,
    "real": _real,
}
