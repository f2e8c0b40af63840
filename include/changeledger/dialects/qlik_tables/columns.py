"""The columns of a change table, as its database describes them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import Select, column, func, quoted_name, select, table

from changeledger.config.tables import TableConfig
from changeledger.dialects.tables.sql import key_positions
from changeledger.model import contract as contracts
from changeledger.model.contract import Contract
from changeledger.model.errors import ContractError
from changeledger.model.sql_type import DECIMALS, SqlType, written

# PostgreSQL's type names. SQL Server's stand for themselves.
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


def columns_of(schema: str, name: str) -> Select[Any]:
    """Selects the columns of a table, whatever the case of its name.

    The view's names are in upper case and unquoted: a case-sensitive SQL Server knows no others.
    """
    names = (
        "TABLE_SCHEMA", "TABLE_NAME", "COLUMN_NAME", "ORDINAL_POSITION", "DATA_TYPE", "IS_NULLABLE",
        "CHARACTER_MAXIMUM_LENGTH", "NUMERIC_PRECISION", "NUMERIC_SCALE", "DATETIME_PRECISION",
    )  # fmt: skip
    source = table(
        quoted_name("COLUMNS", quote=False),
        *(column(quoted_name(n, quote=False)) for n in names),
        schema=quoted_name("INFORMATION_SCHEMA", quote=False),
    )
    return select(*(source.c[n].label(n.lower()) for n in names)).where(
        func.lower(source.c.TABLE_SCHEMA) == schema.lower(), func.lower(source.c.TABLE_NAME) == name.lower()
    )


def writer_schema_of(
    config: TableConfig, own_names: Collection[str], rows: Sequence[Mapping[str, Any]]
) -> Contract:
    """Builds the contract of a change table's data columns, from `columns_of` rows in the table's order.

    `own_names`: Qlik's own columns, in lower case. Ordinals count them, too, as the bits of a mask do. Raises
    ContractError if SQL Server has no type like a column's and the feed states none, or if the feed states a
    key of other columns.
    """
    data = [(at, row) for at, row in enumerate(rows, 1) if row["column_name"].lower() not in own_names]
    keys = key_positions(config, [row["column_name"] for _, row in data])
    stated = {c.name.lower(): c for c in config.stated}
    columns = []
    for at, row in data:
        name = row["column_name"]
        override = stated.get(name.lower())
        kind = override.type if override else _type_text(row)
        if kind is None:
            raise ContractError(
                f"{config.table}.{name} has the type {row['data_type']}, which the lake cannot store",
                f"state the SQL Server type of {name} in `columns:` of the feed's YAML",
            )
        columns.append(
            contracts.Column(
                name=name,
                type=kind,
                ordinal=at,
                nullable=override.nullable if override else True,
                key_position=keys.get(name.lower(), 0),
            )
        )
    return Contract(table=config.table, columns=tuple(columns))


def _type_text(row: Mapping[str, Any]) -> str | None:
    """Returns the type with its sizes, as T-SQL writes it, or None if SQL Server has none like it.

    `row` is a row of information_schema.columns. A numeric without a precision may have any number: only the
    feed can say which ones it has.
    """
    declared = str(row["data_type"]).lower()
    if declared in _NAMES:
        return _NAMES[declared]
    base = _SIZED.get(declared, declared)
    sizes = ("character_maximum_length", "numeric_precision", "numeric_scale", "datetime_precision")
    length, precision, scale, digits = map(row.get, sizes)
    if base in DECIMALS and (precision is None or precision > 38):
        return None
    text = written(base, -1 if length is None else length, precision, scale if base in DECIMALS else digits)
    try:
        SqlType.parse(text)
    except ContractError:
        return None
    return text
