"""What the SELECTs on change tables of every kind share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, DateTime, String, Unicode, cast, literal

from changeledger.config.tables import TableConfig
from changeledger.model.errors import ContractError
from changeledger.model.sql_type import SqlType

# Types that no JDBC type of Spark holds without loss; they are read as the database prints them.
_AS_TEXT = {"time", "datetimeoffset", "xml", "sql_variant"}


def as_read(source: ColumnElement[Any], sql: SqlType) -> ColumnElement[Any]:
    if sql.base in _AS_TEXT or (sql.base == "datetime2" and sql.spark == "string"):
        return cast(source, Unicode() if sql.base in {"xml", "sql_variant"} else String(40))
    return source


def literal_time(at: datetime) -> ColumnElement[Any]:
    return cast(literal(at.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]), DateTime)


def key_positions(config: TableConfig, names: Sequence[str]) -> Mapping[str, int]:
    """1-based place in the key by lower-case name, as the feed states it.

    Raises ContractError if it states a column that the change table does not have.
    """
    there = {name.lower() for name in names}
    missing = [name for name in config.key if name.lower() not in there]
    if missing:
        raise ContractError(
            f"the key of {config.table} has {', '.join(missing)}, which its change table has not",
            f"correct `key:` of {config.table} in the feed's YAML; the columns are {', '.join(names)}",
        )
    return {name.lower(): at for at, name in enumerate(config.key, 1)}
