"""Columns whose values SQL Server hides from the feed's login (dynamic data masking).

A change table is masked as its table is: `cdc.captured_columns` has the masks, and SQL Server's procedures
set them on the `_CT` tables. A login without UNMASK reads `xxxx` or 0 in place of each value, and no error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Select, func, literal, select

from changeledger.dialects.interface import SourceDatabase
from changeledger.dialects.sqlserver_cdc.instances import CaptureInstance
from changeledger.model.column_names import shown
from changeledger.model.errors import ConfigError


def require_values(
    database: SourceDatabase,
    cdc_schema: str,
    instance: CaptureInstance,
    captured: Iterable[Mapping[str, Any]],
) -> None:
    """Raises ConfigError if the login reads masks of a column.

    `captured`: rows of `CdcCatalog.captured_columns`.
    """
    masked = [
        row["column_name"]
        for row in captured
        if row["object_id"] == instance.object_id and row.get("is_masked") in (True, 1)
    ]
    if not masked:
        return
    (rights,) = database.rows(_rights(cdc_schema, f"{instance.name}_CT", masked))
    hidden = [name for at, name in enumerate(masked) if 1 not in (rights["database"], rights[f"column_{at}"])]
    if hidden:
        raise ConfigError(
            f"{instance.table}: SQL Server shows the feed's login masks in place of values: {shown(hidden)}",
            "GRANT UNMASK to the login (since SQL Server 2022 it may be ON the change table alone), or "
            "capture the table without these columns (`@captured_column_list`)",
        )


def _rights(schema: str, change_table: str, names: Sequence[str]) -> Select[Any]:
    """May the login see the values? 1 if so; NULL where the version knows no such right on a column."""
    securable = ".".join(f"[{part.replace(']', ']]')}]" for part in (schema, change_table))
    of_database = func.has_perms_by_name(func.quotename(func.db_name()), "DATABASE", "UNMASK")
    of_columns = (
        func.has_perms_by_name(literal(securable), "OBJECT", "UNMASK", literal(name), "COLUMN")
        for name in names
    )
    return select(
        of_database.label("database"), *(right.label(f"column_{at}") for at, right in enumerate(of_columns))
    )
