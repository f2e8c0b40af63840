"""Detects columns whose values SQL Server hides from a login (dynamic data masking).

A login without UNMASK reads `xxxx` or 0 in place of each value, and gets no error. A change table of SQL
Server is masked like its table: `cdc.captured_columns` has the masks, and SQL Server's procedures set them on
it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Select, func, literal, select

from changeledger.dialects.interface import SourceDatabase
from changeledger.dialects.tables.sql import named_table
from changeledger.model.column_names import shown
from changeledger.model.errors import ConfigError

_COLUMNS = named_table("sys", "columns", "object_id", "name", "is_masked")


def masked_columns(
    database: SourceDatabase, schema: str, name: str, columns: Collection[str]
) -> Sequence[str]:
    """Returns the masked ones of a table's columns; none before SQL Server 2016."""
    if "is_masked" not in database.columns(_COLUMNS):
        return []
    of_table = _COLUMNS.c.object_id == func.object_id(literal(_securable(schema, name)))
    rows = database.rows(select(_COLUMNS.c.name).where(of_table, _COLUMNS.c.is_masked == 1))
    read = {column_name.lower() for column_name in columns}
    return [row["name"] for row in rows if row["name"].lower() in read]


def require_values(database: SourceDatabase, schema: str, name: str, masked: Sequence[str]) -> None:
    """Raises ConfigError if the login reads masks in place of values. `masked`: the masked columns."""
    if not masked:
        return
    (rights,) = database.rows(_rights(_securable(schema, name), masked))
    hidden = [
        column_name
        for at, column_name in enumerate(masked)
        if 1 not in (rights["database"], rights[f"column_{at}"])
    ]
    if hidden:
        raise ConfigError(
            f"{schema}.{name}: SQL Server shows the login masks instead of values: {shown(hidden)}",
            "GRANT UNMASK to the connection's login (SQL Server 2022 and later can grant it ON a "
            "single table), or do not publish these columns (`publish:`, `drop`)",
        )


def _rights(securable: str, names: Sequence[str]) -> Select[Any]:
    """Returns a query for the login's UNMASK right on the database and on each column.

    Its cells are 1 with the right, and NULL if the version knows no such right on a column.
    """
    of_database = func.has_perms_by_name(func.quotename(func.db_name()), "DATABASE", "UNMASK")
    of_columns = (
        func.has_perms_by_name(literal(securable), "OBJECT", "UNMASK", literal(name), "COLUMN")
        for name in names
    )
    return select(
        of_database.label("database"), *(right.label(f"column_{at}") for at, right in enumerate(of_columns))
    )


def _securable(schema: str, name: str) -> str:
    return ".".join(f"[{part.replace(']', ']]')}]" for part in (schema, name))
