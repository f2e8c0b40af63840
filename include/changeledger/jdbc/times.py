"""Reads times without a zone from a database into Spark as text.

Spark's reader takes them from `java.sql.Timestamp`, an instant in the JVM's zone. In the night in which
summer time begins there, 02:30 becomes 03:30. `java.sql.Date` has the same fault for days that a calendar
left out: some in October 1582, and 30 December 2011 in Samoa.

Two kinds of values stay text, so that nothing is lost: times with more digits of a second than Spark's
timestamps (`datetime2(7)` that a feed states as `datetime2(6)`), and a `datetimeoffset` that a feed states as
another type, as Spark's timestamps are instants without an offset.
"""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DateType, StructType, TimestampNTZType, TimestampType
from sqlalchemy import ColumnElement, Select, String, select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler

from changeledger.model.change import quoted

Kinds = dict[str, str]

# Digits of a second in Spark's timestamps.
_DIGITS: Final = 6
# Styles of CONVERT: `2026-08-07 16:25:00.883` with all digits of the type, and `2026-08-07`.
_STYLES: Final = {"timestamp_ntz": 121, "timestamp": 121, "date": 23}


class _Printed(ColumnElement[str]):
    inherit_cache = False
    type = String()

    def __init__(self, time: ColumnElement[Any], kind: str) -> None:
        self.time, self.kind = time, kind


@compiles(_Printed)
def _standard(element: _Printed, compiler: SQLCompiler, **named: Any) -> str:
    return f"CAST({compiler.process(element.time, **named)} AS VARCHAR(30))"


@compiles(_Printed, "mssql")
def _mssql(element: _Printed, compiler: SQLCompiler, **named: Any) -> str:
    return f"CONVERT(VARCHAR(40), {compiler.process(element.time, **named)}, {_STYLES[element.kind]})"


def kinds_of(schema: StructType, *, has_offsets: bool = False) -> Kinds:
    """Returns the columns of times and days without a zone.

    `has_offsets`: include Spark's timestamps with a zone, because the database's type has its own offsets.
    """
    types: dict[type[DataType], str] = {TimestampNTZType: "timestamp_ntz", DateType: "date"}
    if has_offsets:
        types[TimestampType] = "timestamp"
    return {field.name: types[type(field.dataType)] for field in schema if type(field.dataType) in types}


def held(schema: StructType) -> Kinds:
    """Returns the columns of `kinds_of` whose values fit Spark's types, by the digits that JDBC states.

    A time of day is left out; Spark reads it as a time of 1970, and marks it in the metadata.
    """
    of_day = {field.name for field in schema if field.metadata.get("logical_time_type")}
    scales = {field.name: field.metadata.get("scale", 0) for field in schema if field.name not in of_day}
    return {name: kind for name, kind in kinds_of(schema).items() if scales.get(name, _DIGITS + 1) <= _DIGITS}


def printed(query: Select[Any], kinds: Kinds) -> Select[Any]:
    """Returns the SELECT with these columns as text."""
    asked = query.subquery("asked")
    return select(*(_Printed(c, kinds[c.name]).label(c.name) if c.name in kinds else c for c in asked.c))


def read_back(frame: DataFrame, kinds: Kinds) -> DataFrame:
    """Casts these columns from text back to their types. Spark raises an error for text that is no time."""
    return frame.withColumns({name: F.col(quoted(name)).cast(kind) for name, kind in kinds.items()})
