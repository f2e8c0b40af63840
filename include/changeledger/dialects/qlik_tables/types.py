"""SQL Server's types for the columns of a change table, as its database describes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from changeledger.model.errors import ContractError
from changeledger.model.sql_type import SqlType

# PostgreSQL's names; those of SQL Server stand for themselves.
_NAMES = {
    "integer": "int",
    "boolean": "bit",
    "double precision": "float",
    "text": "nvarchar(max)",
    "json": "nvarchar(max)",
    "jsonb": "nvarchar(max)",
    "bytea": "varbinary(max)",
    "uuid": "uniqueidentifier",
}
_SIZED = {
    "character varying": "nvarchar",
    "character": "nchar",
    "timestamp without time zone": "datetime2",
    "timestamp with time zone": "datetimeoffset",
    "time without time zone": "time",
}
_CHARACTERS = {"char", "varchar", "nchar", "nvarchar", "binary", "varbinary"}
_CLOCKS = {"datetime2", "datetimeoffset", "time"}


def type_text(row: Mapping[str, Any]) -> str | None:
    """The type with its sizes, as T-SQL writes it; None if SQL Server has none like it.

    `row` is one of information_schema.columns. A numeric without a precision may hold any number: only
    the feed can say which it does hold.
    """
    declared = str(row["data_type"]).lower()
    if declared in _NAMES:
        return _NAMES[declared]
    base = _SIZED.get(declared, declared)
    if base in {"decimal", "numeric"}:
        precision, scale = row["numeric_precision"], row["numeric_scale"]
        return None if precision is None or precision > 38 else f"{base}({precision},{scale or 0})"
    if base in _CHARACTERS:
        length = row["character_maximum_length"]
        return f"{base}(max)" if length is None or length < 0 else f"{base}({length})"
    if base in _CLOCKS:
        digits = row["datetime_precision"]
        return base if digits is None else f"{base}({digits})"
    try:
        SqlType.parse(base)
    except ContractError:
        return None
    return base
