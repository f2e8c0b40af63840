"""Reads Qlik's metadata messages on the driver: the columns of a table in one version.

Key differences from other sources of a contract: the types are Qlik's own, so uniqueidentifier, time and
datetimeoffset of SQL Server arrive as text; the ordinal of a column is its bit in a mask plus 1. The feed's
YAML may state the type that a column has in SQL Server.

Source: the page on metadata messages, and Qlik's list of data types.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from changeledger.config.tables import TableConfig
from changeledger.dialects.qlik_messages import instants
from changeledger.model.column_names import is_name, shown
from changeledger.model.contract import Column, Contract
from changeledger.model.sql_type import SqlType
from changeledger.model.stated_key import keyed

MAGIC = "atMSG"

_PLAIN = {
    "BOOLEAN": "bit",
    "DATE": "date",
    "TIME": "time",
    "INT1": "smallint",
    "INT2": "smallint",
    "INT4": "int",
    "INT8": "bigint",
    "UINT1": "tinyint",
    "UINT2": "int",
    "UINT4": "bigint",
    "UINT8": "decimal(20,0)",
    "REAL4": "real",
    "REAL8": "float",
    "BLOB": "varbinary(max)",
    "CLOB": "varchar(max)",
    "NCLOB": "nvarchar(max)",
}
_SIZED = {"STRING": "varchar", "WSTRING": "nvarchar", "BYTES": "varbinary"}
_INSTANTS = {"DATETIME", "TIMESTAMP"}
_LONGEST = 8000
_LONGEST_ID = 500
# SQL Server's widest table. A mask is as wide as the highest ordinal.
_MOST_COLUMNS = 30_000
_UNKNOWN = f"nvarchar({_LONGEST})"


class Metadata(NamedTuple):
    """One metadata message: its schema id, if any, the columns, and when it says that it was written."""

    schema_id: str | None
    writer_schema: Contract
    # Microseconds since 1970.
    stated_at: int | None


def read(text: str) -> Metadata:
    """Reads the metadata in a message, with or without envelope. Raises ValueError with what is wrong."""
    try:
        message = json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    message = _object(message, "the message")
    if message.get("magic", MAGIC) != MAGIC:
        raise ValueError(f"magic is {message['magic']!r}")
    body = _object(message.get("message", message), "message")
    lineage = _object(body.get("lineage"), "lineage")
    names = [lineage.get(part) for part in ("schema", "table")]
    if not all(is_name(name) and is_kept(str(name)) for name in names):
        raise ValueError(f"lineage does not name schema and table: {names}")
    structure = _object(body.get("tableStructure"), "tableStructure")
    columns = _object(structure.get("tableColumns"), "tableStructure.tableColumns")
    contract_columns = [
        _column(name, _object(definition, f"the column {name!r}")) for name, definition in columns.items()
    ]
    ordinals = [column.ordinal for column in contract_columns]
    if not contract_columns or len(set(ordinals)) < len(contract_columns):
        raise ValueError(f"ordinals are missing or occur twice: {sorted(ordinals)}")
    schema_id = None if body.get("schemaId") == "" else body.get("schemaId")
    if schema_id is not None and not is_kept(str(schema_id)):
        raise ValueError(f"schemaId is not an id: {str(schema_id)[:80]!r}")
    contract_columns.sort(key=lambda column: column.ordinal)
    contract = Contract(table=".".join(str(name) for name in names), columns=tuple(contract_columns))
    if alike := contract.names_alike:
        raise ValueError(f"columns differ only in case: {shown(alike)}")
    stated_at = instants.known(str(lineage.get("timestamp") or ""))
    return Metadata(None if schema_id is None else str(schema_id), contract, stated_at)


def is_kept(name: str) -> bool:
    """Returns whether the control store can keep a schema under this name.

    PostgreSQL allows neither NUL in a key nor a key of any length.
    """
    return len(name) <= _LONGEST_ID and "\0" not in name


def stated(config: TableConfig) -> Contract | None:
    """Returns the contract that the feed's YAML states, if any. Ordinals are in the order of its columns."""
    if not config.stated:
        return None
    return with_stated(
        Contract(
            table=config.table,
            columns=tuple(
                Column(name=c.name, type=c.type, ordinal=at, nullable=c.nullable)
                for at, c in enumerate(config.stated, 1)
            ),
        ),
        config,
    )


def with_stated(writer_schema: Contract, config: TableConfig) -> Contract:
    """Returns `writer_schema` under the feed's name of the table, with the types and key in its YAML."""
    stated_columns = {c.name.lower(): c for c in config.stated}
    columns = []
    for column in keyed(writer_schema, config.key).columns:
        override = stated_columns.get(column.name.lower())
        columns.append(column if override is None else column.stated_as(override.type, override.nullable))
    stated_as = {"table": config.table, "columns": tuple(columns), "source_table": writer_schema.table}
    return writer_schema.model_copy(update=stated_as)


def contradiction(writer_schema: Contract, config: TableConfig) -> str | None:
    """Returns how the feed contradicts metadata, or None if it does not.

    It does so with a type that would read other values, or with a key that has a column that the table lacks:
    the rest of the key would identify the wrong rows.
    """
    names = {name.lower() for name in writer_schema.names}
    if lacking := [name for name in config.key if name.lower() not in names]:
        columns = shown(writer_schema.names)
        return f"`key:` has {shown(lacking)}, but the table has only the columns {columns}: correct `key:`"
    stated_columns = {c.name.lower(): c for c in config.stated}
    for column in writer_schema.columns:
        other = stated_columns.get(column.name.lower())
        # An unknown type may be any type.
        if other is None or column.type == _UNKNOWN:
            continue
        if _is_other(column.spark_type, SqlType.parse(other.type).spark):
            what, remedy = _KIND_NAMES.get(column.spark_type, (column.type, column.type))
            return (
                f"metadata has {what} in {shown([column.name])}, but the feed states {other.type}: "
                f"state {remedy} in `columns:`, or leave its type out"
            )
    return None


def _is_other(written: str, stated: str) -> bool:
    """Returns whether the stated type would read other values.

    Bytes are written as hex digits, which are mostly also a text or a number. The text of a bit is 1 or 0 in
    SQL Server, but `true` or `false` here.
    """
    return written != stated and (
        "binary" in {written, stated} or (written == "boolean" and stated == "string")
    )


_KIND_NAMES = {"binary": ("bytes", "a binary type"), "string": ("text", "text")}


def sql_type(kind: str, length: int, precision: int, scale: int) -> str:
    """Returns the SQL Server type that holds a type of Qlik's; text for an unknown one."""
    kind = kind.partition("(")[0].strip().upper()
    if kind in _SIZED:
        return f"{_SIZED[kind]}({length if 0 < length <= _LONGEST else _LONGEST})"
    if kind == "NUMERIC":
        precision = precision if 0 < precision <= 38 else 38
        return f"decimal({precision},{min(max(scale, 0), precision)})"
    if kind in _INSTANTS:
        # The scale is the number of fractional digits; without one, as many as the lake's type keeps.
        return f"datetime2({scale if 0 < scale <= 7 else 6})"
    return _PLAIN.get(kind, _UNKNOWN)


def _column(name: str, said: Mapping[str, Any]) -> Column:
    def number(member: str) -> int:
        value = said.get(member)
        if value is None:
            return 0
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise ValueError(f"{member} of {name!r} is {value!r}")
        return int(value)

    ordinal, place = number("ordinal"), number("primaryKeyPosition")
    if not 1 <= ordinal <= _MOST_COLUMNS or place < 0:
        raise ValueError(f"{name!r} has ordinal {ordinal} and primaryKeyPosition {place}")
    if not is_name(name):
        raise ValueError(f"{name[:150]!r} is not a column name")
    kind = said.get("type")
    if not isinstance(kind, str):
        raise ValueError(f"the type of {name!r} is {kind!r}")
    column_type = sql_type(kind, number("length"), number("precision"), number("scale"))
    return Column(name=name, type=column_type, ordinal=ordinal, nullable=not place, key_position=place)


def _object(value: object, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{what} is not an object")
    return value
