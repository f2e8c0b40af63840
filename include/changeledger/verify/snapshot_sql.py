"""The SELECTs on a source's own tables: their rows in parts, and the time of its clock."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any

from sqlalchemy import DateTime, Select, TableClause, func, literal, select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.expression import ColumnElement

from changeledger.dialects.sqlserver_cdc.literals import LsnLiteral
from changeledger.dialects.tables.sql import as_read
from changeledger.model.contract import Contract


class UtcNow(ColumnElement[Any]):
    """The database's own clock, in UTC without a zone."""

    inherit_cache = True
    type = DateTime()


@compiles(UtcNow)
def _standard(_element: UtcNow, _compiler: SQLCompiler, **_: Any) -> str:
    return "strftime('%Y-%m-%d %H:%M:%f', 'now')"


@compiles(UtcNow, "mssql")
def _mssql(_element: UtcNow, _compiler: SQLCompiler, **_: Any) -> str:
    return "SYSUTCDATETIME()"


@compiles(UtcNow, "postgresql")
def _postgresql(_element: UtcNow, _compiler: SQLCompiler, **_: Any) -> str:
    return "(clock_timestamp() AT TIME ZONE 'UTC')"


def clock() -> Select[Any]:
    return select(UtcNow().label("at"))


def row_count(source: TableClause) -> Select[Any]:
    return select(func.count().label("rows")).select_from(source)


def cuts(source: TableClause, contract: Contract, rows: int) -> Select[Any]:
    """Selects `cut`, a value of the key's first column for every `rows` rows, and its `place` in their order.

    There is no ORDER BY, because Spark reads it as a subquery, where SQL Server allows none.
    """
    first = source.c[contract.key[0].name]
    placed = select(first.label("cut"), func.row_number().over(order_by=first).label("place")).subquery()
    place = func.min(placed.c.place).label("place")
    return select(placed.c.cut, place).where(placed.c.place % rows == 0).group_by(placed.c.cut)


def parts(source: TableClause, contract: Contract, cuts_there: Sequence[Any]) -> list[Select[Any]]:
    """Returns SELECTs that together give each row once, in the columns of the contract."""
    first = source.c[contract.key[0].name]
    cells = [as_read(source.c[c.name], c.sql_type).label(c.name) for c in contract.columns]
    ends = [None, *map(_written, cuts_there), None]
    return [
        select(*cells).where(
            *([] if low is None else [first > low]), *([] if high is None else [first <= high])
        )
        for low, high in pairwise(ends)
    ]


def _written(value: Any) -> ColumnElement[Any]:
    """Writes a value as a literal.

    A time has the form, and the number of digits, that a `datetime` takes in any language of the login.
    """
    if isinstance(value, datetime):
        return literal(value.isoformat(timespec="milliseconds"))
    return LsnLiteral(bytes(value)) if isinstance(value, bytes | bytearray) else literal(value)
