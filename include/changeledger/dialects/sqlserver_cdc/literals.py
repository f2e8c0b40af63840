"""SQL expressions that SQLAlchemy lacks and the SELECTs on SQL Server's CDC tables need, per database."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, DateTime, LargeBinary
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler


class LsnLiteral(ColumnElement[bytes]):
    """A log sequence number as a literal: Spark gets the SELECT as text, without parameters."""

    inherit_cache = False
    type = LargeBinary()

    def __init__(self, lsn: bytes) -> None:
        self.lsn = lsn


@compiles(LsnLiteral)
def _lsn(element: LsnLiteral, _compiler: SQLCompiler, **_: Any) -> str:
    return f"x'{element.lsn.hex()}'"


@compiles(LsnLiteral, "mssql")
def _lsn_mssql(element: LsnLiteral, _compiler: SQLCompiler, **_: Any) -> str:
    return f"0x{element.lsn.hex().upper()}"


@compiles(LsnLiteral, "postgresql")
def _lsn_postgresql(element: LsnLiteral, _compiler: SQLCompiler, **_: Any) -> str:
    return f"decode('{element.lsn.hex()}', 'hex')"


class WholeMinute(ColumnElement[Any]):
    """A time truncated to the minute."""

    inherit_cache = False
    type = DateTime()

    def __init__(self, time: ColumnElement[Any]) -> None:
        self.time = time


@compiles(WholeMinute)
def _minute(element: WholeMinute, compiler: SQLCompiler, **named: Any) -> str:
    return f"strftime('%Y-%m-%d %H:%M', {compiler.process(element.time, **named)})"


@compiles(WholeMinute, "mssql")
def _minute_mssql(element: WholeMinute, compiler: SQLCompiler, **named: Any) -> str:
    return f"DATEADD(minute, DATEDIFF(minute, 0, {compiler.process(element.time, **named)}), 0)"


@compiles(WholeMinute, "postgresql")
def _minute_postgresql(element: WholeMinute, compiler: SQLCompiler, **named: Any) -> str:
    return f"date_trunc('minute', {compiler.process(element.time, **named)})"
