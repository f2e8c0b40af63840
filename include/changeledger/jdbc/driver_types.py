"""Columns of types that are the driver's own, on their way into Spark: as text.

Spark's reader knows none of SQL Server 2025's `json` and `vector`, and stops at them with an error that names
no column (microsoft/mssql-jdbc#2917: their numbers; Spark's MsSqlServerDialect has neither).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Select, Unicode, cast, literal, select

# What Spark says of a type that it does not know.
UNKNOWN: Final = "UNRECOGNIZED_SQL_TYPE"
# `microsoft.sql.Types`.
_JSON, _VECTOR = -159, -160


def header(query: Select[Any]) -> Select[Any]:
    """No rows of the SELECT, all of its columns."""
    return select(query.subquery("asked")).where(literal(1) == literal(0))


def of_driver(columns: Sequence[str], kinds: Sequence[int]) -> frozenset[str]:
    """Those that the database can print. `kinds`: the numbers that JDBC has for the columns' types."""
    numbers: Mapping[str, int] = dict(zip(columns, kinds, strict=True))
    return frozenset(name for name, kind in numbers.items() if kind in {_JSON, _VECTOR})


def printed(query: Select[Any], names: Collection[str]) -> Select[Any]:
    """The rows of the SELECT with these columns as text."""
    asked = query.subquery("asked")
    return select(*(cast(c, Unicode()).label(c.name) if c.name in names else c for c in asked.c))
