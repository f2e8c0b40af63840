"""Parts that the SELECTs on change tables of every kind share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    DateTime,
    String,
    TableClause,
    Unicode,
    cast,
    column,
    literal,
    quoted_name,
    table,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler

from changeledger.config.tables import TableConfig
from changeledger.model.errors import ContractError
from changeledger.model.sql_type import SqlType

# Types that no JDBC type of Spark holds without loss; they are read as the database prints them.
_AS_TEXT = {"time", "datetimeoffset", "xml"}


def named_table(schema: str, name: str, *columns: str) -> TableClause:
    # For SQL Server, SQLAlchemy takes these marks for T-SQL's own, unless it has to quote the name.
    has_marks = not frozenset("[].").isdisjoint(schema)
    return table(name, *map(column, columns), schema=quoted_name(schema, quote=has_marks or None))


# How CONVERT prints the value of an sql_variant without loss, by its base type: first the type to convert to
# (None for times, which keep their own digits), then the style. The default style cuts seconds and digits of
# money and floats, and takes bytes for characters (hugr-lab/mssql-extension#354). Style 3 needs SQL Server
# 2016.
_VARIANT_STYLES: Final[Mapping[str, tuple[str | None, int]]] = {
    **dict.fromkeys(("date", "time", "smalldatetime", "datetime", "datetime2"), (None, 121)),
    "datetimeoffset": (None, 126),
    **dict.fromkeys(("money", "smallmoney"), ("money", 2)),
    "float": ("float", 3),
    "real": ("real", 3),
    **dict.fromkeys(("binary", "varbinary"), ("varbinary(8000)", 1)),
}


class _VariantText(ColumnElement[str]):
    """The text of an sql_variant, a value that states its own type."""

    inherit_cache = False
    type = Unicode()

    def __init__(self, source: ColumnElement[Any]) -> None:
        self.source = source


@compiles(_VariantText)
def _plain(element: _VariantText, compiler: SQLCompiler, **named: Any) -> str:
    return compiler.process(cast(element.source, Unicode()), **named)


@compiles(_VariantText, "mssql")
def _by_base_type(element: _VariantText, compiler: SQLCompiler, **named: Any) -> str:
    source = compiler.process(element.source, **named)
    whens = []
    for base, (kind, style) in _VARIANT_STYLES.items():
        value = f"CONVERT({kind}, {source})" if kind else source
        whens.append(f"WHEN '{base}' THEN CONVERT(NVARCHAR(max), {value}, {style})")
    of_base = f"CASE CAST(SQL_VARIANT_PROPERTY({source}, 'BaseType') AS NVARCHAR(128)) {' '.join(whens)}"
    return f"{of_base} ELSE {_plain(element, compiler, **named)} END"


def as_read(source: ColumnElement[Any], sql: SqlType) -> ColumnElement[Any]:
    if sql.base == "sql_variant":
        return _VariantText(source)
    if sql.base in _AS_TEXT or (sql.base == "datetime2" and sql.spark == "string"):
        return cast(source, Unicode() if sql.base == "xml" else String(40))
    return source


def literal_time(at: datetime) -> ColumnElement[Any]:
    return cast(literal(at.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]), DateTime)


def key_positions(config: TableConfig, names: Sequence[str]) -> Mapping[str, int]:
    """Returns the 1-based place of each key column, by lower-case name, as the feed states the key.

    Raises ContractError if the feed states a column that the change table does not have.
    """
    lower_case_names = {name.lower() for name in names}
    missing = [name for name in config.key if name.lower() not in lower_case_names]
    if missing:
        raise ContractError(
            f"the key of {config.table} has {', '.join(missing)}, which its change table lacks",
            f"correct `key:` of {config.table} in the feed's YAML; the columns are {', '.join(names)}",
        )
    return {name.lower(): at for at, name in enumerate(config.key, 1)}
