"""Writes rows of the simulated source into PostgreSQL, for the writers of change tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import psycopg
from psycopg import sql

from sourcelab.tables import Column

_POSTGRES_TYPES = {
    "bit": "boolean",
    "tinyint": "smallint",
    "smallint": "smallint",
    "int": "integer",
    "bigint": "bigint",
    "real": "real",
    "float": "double precision",
    "money": "numeric(19,4)",
    "date": "date",
    "datetime": "timestamp(3)",
    "time": "text",
    "datetimeoffset": "text",
    "uniqueidentifier": "uuid",
    "xml": "text",
    "varbinary": "bytea",
}


def copy_rows(session: psycopg.Connection, schema: str, table: str, rows: Iterable[tuple[Any, ...]]) -> None:
    statement = sql.SQL("COPY {} FROM STDIN").format(sql.Identifier(schema, table))
    with session.cursor() as cursor, cursor.copy(statement) as copy:
        for row in rows:
            copy.write_row(row)


def postgres_type(column: Column) -> str:
    if column.base == "decimal":
        return "numeric({},{})".format(*column.arguments)
    if column.base == "datetime2":
        return f"timestamp({column.arguments[0]})"
    if column.base in {"char", "varchar", "nvarchar"}:
        kind = "char" if column.base == "char" else "varchar"
        return "text" if column.is_max else f"{kind}({column.arguments[0]})"
    return _POSTGRES_TYPES[column.base]


def plain_url(url: str) -> str:
    """Converts a SQLAlchemy URL to the form that libpq reads."""
    return url.replace("postgresql+psycopg://", "postgresql://")
