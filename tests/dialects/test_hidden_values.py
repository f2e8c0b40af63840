"""Masked columns: the reader stops where the login may not see values, by SQL Server's HAS_PERMS_BY_NAME."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from sqlalchemy import FromClause, Select
from sqlalchemy.dialects import mssql

from changeledger.dialects.hidden_values import masked_columns, require_values
from changeledger.dialects.sqlserver_cdc.reader import CaptureTables
from changeledger.model.errors import ConfigError
from tests.dialects.test_change_table_readers import CDC, Memory, cdc, feed, lsn


class Rights:
    """A database that answers queries for rights with these values."""

    def __init__(self, **answer: int | None) -> None:
        self.answer = answer
        self.asked: list[str] = []

    def rows(self, query: Select[Any]) -> list[Mapping[str, Any]]:
        text = str(query.compile(dialect=mssql.dialect(), compile_kwargs={"literal_binds": True}))
        self.asked.append(" ".join(text.split()))
        return [self.answer]

    def columns(self, source: FromClause) -> Sequence[str]:
        raise AssertionError(source)


def test_masks_in_place_of_values_stop_the_run() -> None:
    database = Rights(database=0, column_0=0)
    with pytest.raises(ConfigError, match="masks instead of values: email") as raised:
        require_values(database, "cdc", "dbo_it]s_CT", ["email"])
    assert raised.value.remedy.startswith("GRANT UNMASK")
    assert database.asked == [
        "SELECT has_perms_by_name(quotename(db_name()), 'DATABASE', 'UNMASK') AS [database], "
        "has_perms_by_name('[cdc].[dbo_it]]s_CT]', 'OBJECT', 'UNMASK', 'email', 'COLUMN') AS column_0"
    ]


@pytest.mark.parametrize("rights", [(1, None), (1, 1), (0, 1)])
def test_a_login_that_sees_the_values(rights: tuple[int | None, int | None]) -> None:
    """SQL Server before 2022 has no such right on a column, and answers NULL."""
    require_values(Rights(database=rights[0], column_0=rights[1]), "cdc", "dbo_t_CT", ["email"])


def test_nothing_is_asked_where_nothing_is_masked() -> None:
    database = Rights()
    require_values(database, "cdc", "dbo_t_CT", [])
    assert not database.asked


def test_the_masked_columns_of_a_table() -> None:
    memory = Memory(CDC)
    memory.session.create_function("object_id", 1, {"[dbo].[orders]": 10}.get)
    assert masked_columns(memory, "dbo", "orders", ["id"]) == [], "before SQL Server 2016"
    memory.session.executescript("""
        ALTER TABLE sys.columns ADD COLUMN is_masked;
        INSERT INTO sys.columns VALUES (10, 'id', 1, 4, 10, 0, 0, 0), (10, 'Email', 2, 100, 0, 0, 1, 1),
            (10, 'phone', 3, 100, 0, 0, 1, 1), (11, 'email', 2, 100, 0, 0, 1, 1);
    """)
    assert masked_columns(memory, "dbo", "orders", ["id", "email"]) == ["Email"]
    memory.session.close()


def test_the_reader_asks_for_each_change_table() -> None:
    memory = Memory(CDC)
    memory.session.executescript("""
        ALTER TABLE sys.columns ADD COLUMN system_type_id;
        ALTER TABLE sys.columns ADD COLUMN is_masked;
        INSERT INTO sys.columns VALUES (20, 'id', 1, 8, 19, 0, 0, 127, 0),
            (20, 'old', 2, 100, 0, 0, 1, 231, 1);
        UPDATE cdc.captured_columns SET column_type = 'Name' WHERE column_name = 'old';
    """)
    execute = memory.session.execute
    execute("INSERT INTO cdc.change_tables VALUES (20, 10, 'dbo_orders', ?, NULL)", [lsn(1)])
    rights = {"[cdc].[dbo_orders_CT] UNMASK old": 0}
    memory.session.create_function("db_name", 0, lambda: "shop")
    memory.session.create_function("quotename", 1, lambda name: f"[{name}]")
    memory.session.create_function("has_perms_by_name", 3, lambda *_: 0)
    memory.session.create_function(
        "has_perms_by_name", 5, lambda on, _, right, column, __: rights[f"{on} {right} {column}"]
    )
    with pytest.raises(ConfigError, match="values: old"):
        cdc(memory)
    # A column that nobody reads may be hidden.
    dropping = {"table": "dbo.orders", "publish": {"columns": {"OLD": {"drop": True}}}}
    assert CaptureTables(feed("sqlserver_cdc", tables=[dropping]), memory).tables
    rights["[cdc].[dbo_orders_CT] UNMASK old"] = 1
    (table,) = cdc(memory).tables
    assert [c.type for c in table.writer_schema.columns] == ["bigint", "nvarchar(50)"]
    memory.session.close()
