"""Every SELECT on change tables, as the SQL of each database."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from sqlalchemy import Select
from sqlalchemy.dialects import mssql, postgresql, sqlite

from changeledger.config.tables import TableConfig
from changeledger.dialects.sqlserver_cdc.catalog import CdcCatalog, contract_of
from changeledger.dialects.sqlserver_cdc.instances import CaptureInstance, capture_instances
from changeledger.dialects.sqlserver_cdc.time_mapping import TimeMapping
from changeledger.jdbc.database import header
from changeledger.model.contract import Column, Contract
from changeledger.model.errors import ContractError

DIALECTS: dict[str, Any] = {
    "mssql": mssql.dialect(),
    "postgresql": postgresql.dialect(),
    "sqlite": sqlite.dialect(),
}
CATALOG, MAPPING = CdcCatalog("cdc"), TimeMapping("cdc")
INSTANCE = CaptureInstance("dbo_order items]", 7, "dbo.order items]", bytes(10))
SHAPE = Contract(
    table="dbo.order items]",
    columns=(
        Column(name="select", type="int", ordinal=1, key_position=1),
        Column(name='a"b', type="nvarchar(9)", ordinal=2),
        Column(name="at", type="datetime2(7)", ordinal=3),
    ),
)
LOW, HIGH = bytes.fromhex("0000002A000003B00005"), bytes.fromhex("FFFFFFFFFFFFFFFEFFFF")
LITERALS = {
    "mssql": ("0x0000002A000003B00005", "0xFFFFFFFFFFFFFFFEFFFF"),
    "postgresql": ("decode('0000002a000003b00005', 'hex')", "decode('fffffffffffffffeffff', 'hex')"),
    "sqlite": ("x'0000002a000003b00005'", "x'fffffffffffffffeffff'"),
}
NO_TRANSACTION = {"mssql": "0x00", "postgresql": "decode('00', 'hex')", "sqlite": "x'00'"}
# The change table, its columns `select` and `a"b`, and the type of a time without zone.
NAMES = {
    "mssql": ("cdc.[dbo_order items]]_CT]", "[select]", '[a"b]', "DATETIME"),
    "postgresql": ('cdc."dbo_order items]_CT"', '"select"', '"a""b"', "TIMESTAMP WITHOUT TIME ZONE"),
    "sqlite": ('cdc."dbo_order items]_CT"', '"select"', '"a""b"', "DATETIME"),
}
NOON = datetime(2026, 8, 7, 12)
every_database = pytest.mark.parametrize("database", DIALECTS)


def sql(query: Select[Any], database: str) -> str:
    text = str(query.compile(dialect=DIALECTS[database], compile_kwargs={"literal_binds": True}))
    return " ".join(text.split())


@every_database
def test_capture_instances(database: str) -> None:
    assert sql(CATALOG.capture_instances(), database) == (
        "SELECT cdc.change_tables.capture_instance, cdc.change_tables.object_id, "
        "cdc.change_tables.source_object_id, cdc.change_tables.start_lsn, cdc.change_tables.create_date, "
        "sys.schemas.name AS schema_name, sys.tables.name AS table_name FROM cdc.change_tables "
        "LEFT OUTER JOIN sys.tables ON sys.tables.object_id = cdc.change_tables.source_object_id "
        "LEFT OUTER JOIN sys.schemas ON sys.schemas.schema_id = sys.tables.schema_id"
    )


@every_database
@pytest.mark.parametrize(
    ("known", "is_it", "later"),
    [
        (
            ["column_id", "system_type_id", "is_masked", "is_identity"],
            "source.column_id = cdc.captured_columns.column_id",
            ", sys.columns.system_type_id, sys.columns.is_masked, source.is_identity",
        ),
        ([], "source.name = cdc.captured_columns.column_name", ""),
    ],
)
def test_captured_columns(database: str, known: list[str], is_it: str, later: str) -> None:
    precision = "[precision]" if database == "mssql" else "precision"
    assert sql(CATALOG.captured_columns(known), database) == (
        "SELECT cdc.captured_columns.object_id, cdc.captured_columns.column_name, "
        "cdc.captured_columns.column_type, cdc.captured_columns.column_ordinal, "
        f"cdc.captured_columns.is_computed, sys.columns.max_length, sys.columns.{precision}, "
        "sys.columns.scale, sys.columns.is_nullable, cdc.index_columns.index_ordinal, "
        f"source.name AS source_name{later} "
        "FROM cdc.captured_columns LEFT OUTER JOIN sys.columns "
        "ON sys.columns.object_id = cdc.captured_columns.object_id "
        "AND sys.columns.name = cdc.captured_columns.column_name LEFT OUTER JOIN cdc.index_columns "
        "ON cdc.index_columns.object_id = cdc.captured_columns.object_id "
        "AND cdc.index_columns.column_name = cdc.captured_columns.column_name "
        "LEFT OUTER JOIN cdc.change_tables ON cdc.change_tables.object_id = cdc.captured_columns.object_id "
        "LEFT OUTER JOIN sys.columns AS source ON source.object_id = cdc.change_tables.source_object_id "
        f"AND {is_it}"
    )


@every_database
def test_highest_lsn(database: str) -> None:
    everything = "SELECT max(cdc.lsn_time_mapping.start_lsn) AS lsn FROM cdc.lsn_time_mapping"
    assert sql(MAPPING.highest_lsn(), database) == everything
    before = datetime(2026, 8, 7, 16, 25, 0, 883999)
    assert sql(MAPPING.highest_lsn(before), database) == (
        f"{everything} WHERE cdc.lsn_time_mapping.tran_end_time < "
        f"CAST('2026-08-07T16:25:00.883' AS {NAMES[database][3]})"
    )


@every_database
def test_transactions(database: str) -> None:
    low, high = LITERALS[database]
    start = "cdc.lsn_time_mapping.start_lsn"
    assert sql(MAPPING.transactions(LOW, HIGH), database) == (
        f"SELECT {start} AS lsn FROM cdc.lsn_time_mapping WHERE {start} > {low} AND {start} <= {high}"
    )


@every_database
def test_row_count(database: str) -> None:
    table, high = NAMES[database][0], LITERALS[database][1]
    assert sql(CATALOG.row_count(INSTANCE, None, HIGH), database) == (
        f"SELECT count(*) AS rows FROM {table} WHERE __$start_lsn <= {high}"
    )


@every_database
def test_changes(database: str) -> None:
    (low, high), (table, select, a_b, _) = LITERALS[database], NAMES[database]
    query = CATALOG.changes(INSTANCE, SHAPE, ["__$start_lsn", "__$operation"], LOW, HIGH)
    assert sql(query, database) == (
        f"SELECT {table}.__$start_lsn, {table}.__$operation, {table}.{select} AS {select}, "
        f"{table}.{a_b} AS {a_b}, CAST({table}.at AS VARCHAR(40)) AS at, "
        f"commit_times.tran_end_time AS __$commit_time FROM {table} "
        f"LEFT OUTER JOIN cdc.lsn_time_mapping AS commit_times "
        f"ON commit_times.start_lsn = {table}.__$start_lsn "
        f"AND commit_times.tran_id != {NO_TRANSACTION[database]} "
        f"WHERE {table}.__$start_lsn > {low} AND {table}.__$start_lsn <= {high}"
    )


@every_database
def test_header(database: str) -> None:
    assert (
        sql(header(CATALOG.change_table(INSTANCE)), database)
        == f"SELECT * FROM {NAMES[database][0]} WHERE 1 = 0"
    )


def as_text(kind: str, database: str) -> str:
    writer_schema = Contract(table="dbo.t", columns=(Column(name="x", type=kind, ordinal=1),))
    instance = CaptureInstance("dbo_t", 1, "dbo.t", bytes(10))
    return sql(CATALOG.changes(instance, writer_schema, ["__$start_lsn"], None, HIGH), database)


@pytest.mark.parametrize("kind", ["xml", "sql_variant"])
def test_text_of_any_language_is_read_as_such(kind: str) -> None:
    assert "CAST(cdc.[dbo_t_CT].x AS NVARCHAR(max))" in as_text(kind, "mssql")


def test_a_value_of_any_type_is_printed_by_the_style_of_its_own() -> None:
    """Each base type of a sql_variant is converted with its own style.

    Measured by others on SQL Server 2022: without a style, a date becomes `Sep 16 2026 10:11AM`, and bytes
    become characters.
    """
    x, text = "cdc.[dbo_t_CT].x", "CONVERT(NVARCHAR(max), "
    whens = {
        "date": f"{text}{x}, 121)",
        "time": f"{text}{x}, 121)",
        "smalldatetime": f"{text}{x}, 121)",
        "datetime": f"{text}{x}, 121)",
        "datetime2": f"{text}{x}, 121)",
        # With its own offset, as the lake writes it.
        "datetimeoffset": f"{text}{x}, 126)",
        # Four digits. The type's default style has two.
        "money": f"{text}CONVERT(money, {x}), 2)",
        "smallmoney": f"{text}CONVERT(money, {x}), 2)",
        # As many digits as it takes. The type's default style has six.
        "float": f"{text}CONVERT(float, {x}), 3)",
        "real": f"{text}CONVERT(real, {x}), 3)",
        "binary": f"{text}CONVERT(varbinary(8000), {x}), 1)",
        "varbinary": f"{text}CONVERT(varbinary(8000), {x}), 1)",
    }
    cases = " ".join(f"WHEN '{base}' THEN {printed}" for base, printed in whens.items())
    base_type = f"CAST(SQL_VARIANT_PROPERTY({x}, 'BaseType') AS NVARCHAR(128))"
    assert (
        f"SELECT cdc.[dbo_t_CT].__$start_lsn, CASE {base_type} {cases} "
        f"ELSE CAST({x} AS NVARCHAR(max)) END AS x, commit_times."
    ) in as_text("sql_variant", "mssql")
    assert 'CAST(cdc."dbo_t_CT".x AS VARCHAR) AS x' in as_text("sql_variant", "postgresql")


def captured(name: str, kind: str, at: int, **members: Any) -> dict[str, Any]:
    return {
        "object_id": 7, "column_name": name, "column_type": kind, "column_ordinal": at, "is_computed": False,
        "max_length": None, "precision": None, "scale": None, "is_nullable": True, "index_ordinal": None,
        "source_name": None,
        **members,
    }  # fmt: skip


def test_the_contract_that_the_metadata_gives() -> None:
    rows = [
        captured("name", "nvarchar", 4, max_length=100),
        captured("id", "int", 1, is_nullable=False, index_ordinal=1),
        captured("price", "decimal", 2, precision=18, scale=4),
        captured("note", "nvarchar", 5, max_length=-1, is_computed=1),
        captured("at", "datetime2", 6, scale=3),
        captured("code", "char", 7, max_length=5),
        captured("other", "int", 1, object_id=8),
    ]
    contract = contract_of(TableConfig(table="dbo.order items]"), INSTANCE, rows)
    assert [
        (c.name, c.type, c.ordinal, c.key_position, c.nullable, c.computed) for c in contract.columns
    ] == [
        ("id", "int", 1, 1, False, False),
        ("price", "decimal(18,4)", 2, 0, True, False),
        ("name", "nvarchar(50)", 4, 0, True, False),
        ("note", "nvarchar(max)", 5, 0, True, True),
        ("at", "datetime2(3)", 6, 0, True, False),
        ("code", "char(5)", 7, 0, True, False),
    ]


@pytest.mark.parametrize(
    ("said", "number", "sizes", "kind"),
    [
        # AdventureWorks: CREATE TYPE dbo.Name FROM nvarchar(50), dbo.Flag FROM bit.
        ("Name", 231, (100, 0, 0), "nvarchar(50)"),
        ("Flag", 104, (1, 1, 0), "bit"),
        ("sysname", 231, (256, 0, 0), "nvarchar(128)"),
        ("price", 106, (9, 18, 4), "decimal(18,4)"),
        # After ALTER COLUMN.
        ("char", 167, (10, 0, 0), "varchar(10)"),
        ("int", 127, (8, 19, 0), "bigint"),
        # "timestamp columns are defined as binary(8)", "identity columns as int or bigint".
        ("timestamp", 173, (8, 0, 0), "timestamp"),
        ("tinyint", 56, (4, 10, 0), "tinyint"),
        ("numeric", 127, (8, 19, 0), "numeric(19,0)"),
        # CLR types, and a type of SQL Server 2025.
        ("hierarchyid", 240, (892, 0, 0), "hierarchyid"),
        ("geography", 240, (-1, 0, 0), "geography"),
        ("json", 244, (-1, 0, 0), "json"),
        ("xml", 241, (-1, 0, 0), "xml"),
        ("sql_variant", 98, (8016, 0, 0), "sql_variant"),
        ("nvarchar", None, (100, 0, 0), "nvarchar(50)"),
    ],
)
def test_the_type_is_that_of_the_change_tables_own_column(
    said: str, number: int | None, sizes: tuple[int, int, int], kind: str
) -> None:
    """The type numbers are those of sys.types on every server. The rest is in the page on `_CT` tables."""
    length, precision, scale = sizes
    columns = {"max_length": length, "precision": precision, "scale": scale, "system_type_id": number}
    rows = [captured("id", "int", 1, index_ordinal=1), captured("x", said, 2, **columns)]
    contract = contract_of(TableConfig(table="dbo.t"), INSTANCE, rows)
    assert contract.columns[1].type == kind


@pytest.mark.parametrize(("is_identity", "kind"), [(1, "smallint"), (None, "smallint"), (0, "int")])
def test_an_identity_keeps_its_type(is_identity: int | None, kind: str) -> None:
    """ "Identity columns are defined as int or bigint".

    A smallint without identity became an int by ALTER COLUMN.
    """
    columns = {"max_length": 4, "precision": 10, "scale": 0, "system_type_id": 56, "is_identity": is_identity}
    rows = [captured("id", "int", 1, index_ordinal=1), captured("x", "smallint", 2, **columns)]
    assert contract_of(TableConfig(table="dbo.t"), INSTANCE, rows).columns[1].type == kind


@pytest.mark.parametrize(("seen", "dropped"), [("id", ["note"]), (None, [])])
def test_a_column_that_the_source_has_no_more(seen: str | None, dropped: list[str]) -> None:
    """The source table no longer has the column. If the login may not see that table, nothing tells so."""
    rows = [captured("id", "int", 1, index_ordinal=1, source_name=seen), captured("note", "int", 2)]
    contract = contract_of(TableConfig(table="dbo.t"), INSTANCE, rows)
    assert [c.name for c in contract.columns if c.dropped] == dropped
    assert Contract.model_validate(contract.model_dump(mode="json")) == contract


def test_what_the_feed_states_wins() -> None:
    config = TableConfig.model_validate(
        {"table": "dbo.t", "key": ["B", "a"], "columns": [{"name": "A", "type": "bigint", "nullable": False}]}
    )
    rows = [captured("a", "int", 1, index_ordinal=1), captured("b", "int", 2)]
    contract = contract_of(config, INSTANCE, rows)
    assert [(c.name, c.type, c.key_position) for c in contract.columns] == [
        ("a", "bigint", 2),
        ("b", "int", 1),
    ]


def test_what_is_captured_as_a_large_object_stays_one() -> None:
    """A column captured as a large object stays one, whatever type the feed states for it.

    NULL in an update may mean that it did not change (Microsoft's page "cdc.<capture_instance>_CT", part on
    large object types).
    """
    stated = [{"name": name, "type": "nvarchar(200)"} for name in ("long", "short", "other")]
    config = TableConfig.model_validate({"table": "dbo.t", "key": ["id"], "columns": stated})
    rows = [
        captured("id", "int", 1),
        captured("long", "nvarchar", 2, max_length=-1),
        captured("short", "nvarchar", 3, max_length=400),
        captured("other", "json", 4),
        captured("unseen", "varchar", 5),
    ]
    contract = contract_of(config, INSTANCE, rows)
    assert [c.name for c in contract.columns if c.is_large] == ["long", "other", "unseen"]
    assert Contract.model_validate(contract.model_dump(mode="json")) == contract


def test_a_capture_instance_that_cannot_be_seen() -> None:
    with pytest.raises(ContractError, match="no captured columns") as raised:
        contract_of(TableConfig(table="dbo.t"), INSTANCE, [])
    assert "grant SELECT" in raised.value.remedy


@pytest.mark.parametrize(("key", "is_read"), [([], False), (["CODE"], False), (["id"], True)])
def test_a_computed_column_is_no_key(key: list[str], is_read: bool) -> None:
    """ "Computed columns that are included in a capture instance always have a value of NULL" (`_CT`)."""
    rows = [captured("id", "int", 1), captured("code", "int", 2, index_ordinal=1, is_computed=1)]
    config = TableConfig(table="dbo.t", key=tuple(key))
    if is_read:
        assert [c.name for c in contract_of(config, INSTANCE, rows).key] == ["id"]
        return
    with pytest.raises(ContractError, match=r"the key of dbo\.t has code, which is computed") as raised:
        contract_of(config, INSTANCE, rows)
    assert "state a `key:`" in raised.value.remedy


def test_a_change_table_that_cannot_be_seen() -> None:
    """Refuses a change table whose columns the login cannot see.

    Catalog views show only the columns of tables on which one has a right (Microsoft's page "Metadata
    visibility configuration"). A second capture instance does not inherit the rights on the first.
    """
    rows = [captured("id", "decimal", 1, index_ordinal=1, system_type_id=None)]
    with pytest.raises(ContractError, match=r"cannot see the columns .*dbo_order items\]_CT") as raised:
        contract_of(TableConfig(table="dbo.t"), INSTANCE, rows)
    assert raised.value.remedy.startswith("grant SELECT on it")


def test_capture_instances_of_rows() -> None:
    row = {
        "capture_instance": "dbo_t_v2", "object_id": 7, "schema_name": "dbo", "table_name": "t.x",
        "start_lsn": bytearray(LOW), "create_date": NOON, "source_object_id": 5,
    }  # fmt: skip
    assert capture_instances([row]) == [CaptureInstance("dbo_t_v2", 7, "dbo.t.x", LOW, NOON, 5)]
    unseen = {**row, "schema_name": None, "table_name": None, "start_lsn": None}
    assert capture_instances([unseen]) == [CaptureInstance("dbo_t_v2", 7, "", None, NOON, 5)]
