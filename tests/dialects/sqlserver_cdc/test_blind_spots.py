"""`check` warns of a source whose change tables do not show everything."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy.dialects import mssql

from changeledger.cli.check import change_tables
from changeledger.cli.check.outcome import OK, WARNING
from changeledger.config.connection import Connection
from changeledger.dialects.sqlserver_cdc import blind_spots
from tests.dialects.test_change_table_readers import CDC, Memory, cdc, feed, lsn, sql


@pytest.fixture
def memory() -> Iterator[Memory]:
    """SQL Server's catalog by Microsoft's pages. The source's table has two partitions."""
    memory = Memory(CDC)
    for name in ("system_type_id", "collation_name"):
        memory.session.execute(f"ALTER TABLE sys.columns ADD COLUMN {name}")
    memory.session.executescript("""
        ALTER TABLE cdc.change_tables ADD COLUMN partition_switch;
        CREATE TABLE sys.partitions (object_id, partition_number);
        INSERT INTO sys.partitions VALUES (10, 1), (10, 2);
        INSERT INTO sys.columns VALUES (20, 'id', 1, 4, 10, 0, 0, 56, NULL),
            (20, 'old', 2, 9, 0, 0, 1, 167, 'Latin1_General_CI_AS');
    """)
    memory.session.execute(
        "INSERT INTO cdc.change_tables VALUES (20, 10, 'dbo_orders', ?, NULL, 0)", [lsn(1)]
    )
    memory.session.create_function("db_name", 0, lambda: "shop")
    memory.session.create_function("databasepropertyex", 2, lambda *_: "Latin1_General_CI_AS")
    yield memory
    memory.session.close()


def test_a_source_whose_change_tables_show_everything(memory: Memory) -> None:
    assert cdc(memory).cautions() == []


def test_partitions_that_may_be_switched(memory: Memory) -> None:
    """ "Nonpartitioned tables always have partition_switch set to 1" (cdc.change_tables)."""
    memory.session.execute("UPDATE cdc.change_tables SET partition_switch = 1")
    (caution,) = cdc(memory).cautions()
    assert caution.text.startswith("dbo_orders: partitions of dbo.orders may be switched")
    assert "@allow_partition_switch = 0" in caution.remedy
    memory.session.execute("DELETE FROM sys.partitions WHERE partition_number = 2")
    assert cdc(memory).cautions() == []


@pytest.mark.parametrize(("number", "is_wrong"), [(167, True), (175, True), (35, True), (231, False)])
def test_text_of_another_collation(memory: Memory, number: int, is_wrong: bool) -> None:
    """ "If a table has char or varchar columns with collations that are different" (known issues)."""
    memory.session.execute(
        "UPDATE sys.columns SET collation_name = 'Chinese_PRC_CI_AI', system_type_id = ? WHERE name = 'old'",
        [number],
    )
    texts = [caution.text for caution in cdc(memory).cautions()]
    assert [
        text.endswith("collation of these columns differs from the database's: old") for text in texts
    ] == [True] * is_wrong


def test_columns_that_are_encrypted(memory: Memory) -> None:
    """ "encryption_type: 1 = deterministic, 2 = randomized" (sys.columns).

    It is NULL for all other columns.
    """
    memory.session.execute("ALTER TABLE sys.columns ADD COLUMN encryption_type")
    assert cdc(memory).cautions() == []
    memory.session.execute("UPDATE sys.columns SET encryption_type = 2 WHERE name = 'old'")
    (caution,) = cdc(memory).cautions()
    assert caution.text == "dbo_orders: these columns are read as ciphertext (Always Encrypted): old"


def test_check_warns_of_them(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    memory.session.execute("UPDATE cdc.change_tables SET partition_switch = 1")
    memory.session.create_function("sysdatetimeoffset", 0, lambda: "2026-08-07 12:00:00.1234567 +00:00")
    monkeypatch.setattr(memory, "close", lambda: None, raising=False)
    monkeypatch.setattr(change_tables, "JdbcDatabase", lambda *_: memory)
    reported = feed("sqlserver_cdc", tables=[{"table": "dbo.orders"}])
    connection = Connection(conn_type="mssql", host="h", schema="shop")
    of_table = [
        check for check in change_tables.checks(reported, connection) if check.check == "table dbo.orders"
    ]
    assert [check.result for check in of_table] == [OK, WARNING]
    assert "@allow_partition_switch = 0" in of_table[1].remedy


def test_a_copy_of_the_catalog_is_not_asked() -> None:
    memory = Memory(CDC)
    memory.session.execute("INSERT INTO cdc.change_tables VALUES (20, 10, 'dbo_orders', ?, NULL)", [lsn(1)])
    assert cdc(memory).cautions() == ()
    memory.session.close()


def test_the_selects() -> None:
    assert sql(blind_spots.partitioned("cdc", [20]), mssql.dialect()) == (
        "SELECT cdc.change_tables.object_id FROM cdc.change_tables "
        "WHERE cdc.change_tables.object_id IN (20) AND cdc.change_tables.partition_switch = 1 "
        "AND (EXISTS (SELECT sys.partitions.object_id FROM sys.partitions "
        "WHERE sys.partitions.object_id = cdc.change_tables.source_object_id "
        "AND sys.partitions.partition_number > 1))"
    )
    assert sql(blind_spots.collations([20, 21]), mssql.dialect()) == (
        "SELECT sys.columns.object_id, sys.columns.name, sys.columns.collation_name, "
        "CAST(databasepropertyex(db_name(), 'Collation') AS NVARCHAR(128)) AS of_database FROM sys.columns "
        "WHERE sys.columns.object_id IN (20, 21) AND sys.columns.system_type_id IN (35, 167, 175)"
    )
