"""Reads columns whose types are the driver's own as text.

Spark's reader does not know `json` and `vector` of SQL Server 2025, and fails with an error that names no
column (microsoft/mssql-jdbc#2917 has their type numbers; Spark's MsSqlServerDialect has neither).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Select, Unicode, cast, literal, select

# Part of Spark's error for a type that it does not know.
UNKNOWN: Final = "UNRECOGNIZED_SQL_TYPE"
# `microsoft.sql.Types`.
_JSON, _VECTOR = -159, -160


def header(query: Select[Any]) -> Select[Any]:
    """Returns the SELECT with all of its columns and no rows."""
    return select(query.subquery("asked")).where(literal(1) == literal(0))


def of_driver(columns: Sequence[str], kinds: Sequence[int]) -> frozenset[str]:
    """Returns the columns of the driver's own types. `kinds`: JDBC's numbers of the columns' types."""
    numbers: Mapping[str, int] = dict(zip(columns, kinds, strict=True))
    return frozenset(name for name, kind in numbers.items() if kind in {_JSON, _VECTOR})


def printed(query: Select[Any], names: Collection[str]) -> Select[Any]:
    """Returns the SELECT with these columns as text."""
    asked = query.subquery("asked")
    return select(*(cast(c, Unicode()).label(c.name) if c.name in names else c for c in asked.c))
