"""Times without a zone on their way from a database into Spark: as text.

Spark's reader takes them from `java.sql.Timestamp`, an instant in the zone of the JVM: it turns 02:30 of the
night in which summer time begins there into 03:30. `java.sql.Date` is no better with days that calendars have
left out: in October 1582, and 30 December 2011 in Samoa. What has more digits of a second than Spark's
timestamps stays text (`datetime2(7)` that a feed states as `datetime2(6)`): the last one must not get lost.
Nor must the offset of a `datetimeoffset` that a feed states as another type: Spark's timestamps are instants.
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

# Of a second, in Spark's timestamps.
_DIGITS: Final = 6
# Styles of CONVERT: `2026-08-07 16:25:00.883`, with all digits that the type has, and `2026-08-07`.
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
    """The columns of times and days without a zone.

    `has_offsets`: those of times with an offset of their own, too, which instants are not.
    """
    types: dict[type[DataType], str] = {TimestampNTZType: "timestamp_ntz", DateType: "date"}
    if has_offsets:
        types[TimestampType] = "timestamp"
    return {field.name: types[type(field.dataType)] for field in schema if type(field.dataType) in types}


def held(schema: StructType) -> Kinds:
    """Those of `kinds_of` whose values Spark's types hold, by the digits that JDBC says they have.

    A time of day, which Spark takes for one of 1970 and says so, is none of them.
    """
    of_day = {field.name for field in schema if field.metadata.get("logical_time_type")}
    scales = {field.name: field.metadata.get("scale", 0) for field in schema if field.name not in of_day}
    return {name: kind for name, kind in kinds_of(schema).items() if scales.get(name, _DIGITS + 1) <= _DIGITS}


def printed(query: Select[Any], kinds: Kinds) -> Select[Any]:
    """The rows of the SELECT with these columns as text."""
    asked = query.subquery("asked")
    return select(*(_Printed(c, kinds[c.name]).label(c.name) if c.name in kinds else c for c in asked.c))


def read_back(frame: DataFrame, kinds: Kinds) -> DataFrame:
    """Raises Spark's error of a text that is no time."""
    return frame.withColumns({name: F.col(quoted(name)).cast(kind) for name, kind in kinds.items()})
