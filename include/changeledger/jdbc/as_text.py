"""Reads columns as text whose values Spark's reader would change, or whose types it does not know.

* Times without a zone: Spark takes them from `java.sql.Timestamp`, an instant in the JVM's zone. In the night
  in which summer time begins there, 02:30 becomes 03:30. `java.sql.Date` has the same fault for days that a
  calendar left out: some in October 1582, and 30 December 2011 in Samoa.
* Decimals: PostgreSQL's `numeric` without a precision may have any number of digits, and Spark reads it as
  decimal(38,18). A `numeric` of more than 38 digits it reads with fewer decimal places. It rounds silently.
* Types of the driver: Spark does not know `json` and `vector` of SQL Server 2025, and fails with an error
  that names no column (microsoft/mssql-jdbc#2917 has their type numbers).

Times are cast back on the way, except two kinds of values that would lose something: times with more digits
of a second than Spark's timestamps (`datetime2(7)` that a feed states as `datetime2(6)`), and a
`datetimeoffset` that a feed states as another type, as Spark's timestamps are instants without an offset.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DateType, DecimalType, StructType, TimestampNTZType, TimestampType
from sqlalchemy import ColumnElement, Select, Unicode, cast, func, literal, literal_column, select

from changeledger.model.change import quoted

# Spark's types by column.
Kinds = dict[str, str]
# By column: SQL Server's style of CONVERT, or None for a plain CAST.
Styles = Mapping[str, int | None]

# Part of Spark's error for a type that it does not know.
UNKNOWN: Final = "UNRECOGNIZED_SQL_TYPE"
# `json` and `vector` in `microsoft.sql.Types`.
_OF_DRIVER: Final = (-159, -160)
# Digits of a second in Spark's timestamps.
_DIGITS: Final = 6
# `2026-08-07 16:25:00.883` with all digits of the type, and `2026-08-07`.
_STYLES: Final = {"timestamp_ntz": 121, "timestamp": 121, "date": 23}


def printed(query: Select[Any], styles: Styles) -> Select[Any]:
    """Returns the SELECT with these columns as text."""
    asked = query.subquery("asked")
    return select(*(_text(c, styles[c.name]).label(c.name) if c.name in styles else c for c in asked.c))


def _text(cell: ColumnElement[Any], style: int | None) -> ColumnElement[str]:
    if style is None:
        return cast(cell, Unicode())
    return func.CONVERT(literal_column("VARCHAR(40)"), cell, literal(style))


def of_driver(columns: Sequence[str], kinds: Sequence[int]) -> Styles:
    """Returns the columns of the driver's own types. `kinds`: JDBC's numbers of the columns' types."""
    return {name: None for name, kind in zip(columns, kinds, strict=True) if kind in _OF_DRIVER}


def styles(conn_type: str, schema: StructType) -> Styles:
    """Returns the columns to read as text, by their types in Spark; none of SQLite."""
    if conn_type == "mssql":
        # Timestamps with a zone are among them, because SQL Server's type has its own offsets.
        return {name: _STYLES[kind] for name, kind in _times(schema, has_offsets=True).items()}
    return dict.fromkeys([*_times(schema), *_rounded(schema)]) if conn_type == "postgres" else {}


def _rounded(schema: StructType) -> list[str]:
    """Returns the decimals that Spark would read with another scale than JDBC states."""
    decimals = [(f, f.dataType.scale) for f in schema if isinstance(f.dataType, DecimalType)]
    return [field.name for field, scale in decimals if field.metadata.get("scale", scale) != scale]


def _times(schema: StructType, *, has_offsets: bool = False) -> Kinds:
    types: dict[type[DataType], str] = {TimestampNTZType: "timestamp_ntz", DateType: "date"}
    if has_offsets:
        types[TimestampType] = "timestamp"
    return {field.name: types[type(field.dataType)] for field in schema if type(field.dataType) in types}


def held(schema: StructType) -> Kinds:
    """Returns the times and days without a zone that fit Spark's types, by the digits that JDBC states.

    A time of day is left out; Spark reads it as a time of 1970, and marks it in the metadata.
    """
    of_day = {field.name for field in schema if field.metadata.get("logical_time_type")}
    scales = {field.name: field.metadata.get("scale", 0) for field in schema if field.name not in of_day}
    return {name: kind for name, kind in _times(schema).items() if scales.get(name, _DIGITS + 1) <= _DIGITS}


def read_back(frame: DataFrame, kinds: Kinds) -> DataFrame:
    """Casts these columns from text back to their types. Spark raises an error for text that is no time."""
    return frame.withColumns({name: F.col(quoted(name)).cast(kind) for name, kind in kinds.items()})
