"""The SELECTs on a source's tables, in the SQL of SQL Server and PostgreSQL."""

from __future__ import annotations

from datetime import datetime

import pytest

from changeledger.config.connection import Connection
from changeledger.dialects.sqlserver_cdc.time_mapping import TimeMapping
from changeledger.dialects.tables.sql import named_table
from changeledger.jdbc.database import JdbcDatabase
from changeledger.model.contract import Column, Contract
from changeledger.verify import snapshot_sql

CONTRACT = Contract(
    table="dbo.Order Lines",
    columns=(
        Column(name="order", type="int", ordinal=1, key_position=1),
        Column(name="at", type="time(3)", ordinal=2),
        Column(name="50%", type="bit", ordinal=3),
    ),
)
SOURCE = named_table("dbo", "Order Lines", *CONTRACT.names)


def text(kind: str, query: object) -> str:
    database = JdbcDatabase("here", Connection(conn_type=kind, host="h", schema="shop"))
    return " ".join(database.sql(query).split())  # type: ignore[arg-type]


def test_a_table_in_two_parts() -> None:
    first, last = snapshot_sql.parts(SOURCE, CONTRACT, [7])
    rows = (
        "SELECT [Order Lines].[order] AS [order], CAST([Order Lines].at AS VARCHAR(40)) AS at, "
        "[Order Lines].[50%] AS [50%] FROM dbo.[Order Lines]"
    )
    reported = [
        text("mssql", condition).replace("dbo.[Order Lines].", "[Order Lines].")
        for condition in (first, last)
    ]
    assert reported == [f"{rows} WHERE [Order Lines].[order] <= 7", f"{rows} WHERE [Order Lines].[order] > 7"]


@pytest.mark.parametrize(("schema", "written"), [("a]b", "[a]]b]"), ("[a]", "[[a]]]"), ("a.b", "[a.b]")])
def test_marks_of_tsql_in_the_name_of_a_schema(schema: str, written: str) -> None:
    """A delimited identifier may have any character; `]` is doubled (Microsoft's page on identifiers)."""
    rows = snapshot_sql.row_count(named_table(schema, "t"))
    assert text("mssql", rows) == f"SELECT count(*) AS rows FROM {written}.t"


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("50%", "'50%'"),
        (b"\x0a\x01", "0x0A01"),
        (datetime(2026, 1, 31, 5, microsecond=883333), "'2026-01-31T05:00:00.883'"),
    ],
)
def test_a_cut_of_another_type(value: object, written: str) -> None:
    """A `datetime` takes three digits of a second, and is written in the ISO 8601 form.

    SQL Server reads `2026-01-31` with a space by the login's language; the ISO 8601 form is not affected by
    SET LANGUAGE (Microsoft's page "datetime").
    """
    assert f"[order] > {written}" in text("mssql", snapshot_sql.parts(SOURCE, CONTRACT, [value])[1])


def test_a_small_table_is_one_select() -> None:
    (only,) = snapshot_sql.parts(SOURCE, CONTRACT, [])
    assert "WHERE" not in text("postgres", only)


def test_cuts_have_no_order_by_outside_of_a_window() -> None:
    """Spark wraps the SELECT in another one, in which SQL Server allows no ORDER BY."""
    reported = text("mssql", snapshot_sql.cuts(SOURCE, CONTRACT, 1000))
    assert reported.count("ORDER BY") == reported.count("OVER (ORDER BY") == 1
    assert "% 1000 = 0" in reported


@pytest.mark.parametrize(
    ("kind", "clock"), [("mssql", "SYSUTCDATETIME()"), ("postgres", "clock_timestamp()")]
)
def test_the_clock_beside_the_highest_lsn(kind: str, clock: str) -> None:
    assert clock in text(kind, snapshot_sql.clock())
    both = text(kind, TimeMapping("cdc").highest_lsn().add_columns(snapshot_sql.UtcNow().label("at")))
    assert clock in both
    assert "max(cdc.lsn_time_mapping.start_lsn) AS lsn" in both
