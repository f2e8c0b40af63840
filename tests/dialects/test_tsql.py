"""Each statement for SQL Server parses as T-SQL (sqlglot), and each name in it stays whole.

The readers' statements are tested on tables whose names contain characters that end identifiers, texts and
statements.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
import sqlglot
from sqlalchemy import FromClause, Select
from sqlglot import exp
from sqlglot.errors import ErrorLevel

from changeledger.config.connection import Connection
from changeledger.config.feed import Feed
from changeledger.dialects.hidden_values import masked_columns
from changeledger.dialects.interface import TableReader
from changeledger.dialects.qlik_tables.reader import ChangeTables
from changeledger.dialects.sqlserver_cdc.reader import CaptureTables
from changeledger.dialects.sqlserver_cdc.time_mapping import TimeMapping
from changeledger.dialects.tables.sql import named_table
from changeledger.jdbc.as_text import printed
from changeledger.jdbc.database import JdbcDatabase, header
from changeledger.model.contract import Column, Contract
from changeledger.model.window import Window
from changeledger.verify import snapshot_sql
from tests.dialects.test_change_table_readers import Memory

HOSTILE = ("a]b", 'c"d', "e.f", "g'h", "[i]", "j;--k", "select", "l]]m", "n\no", "ö%s")
TABLE = "o]r\"d's"
# SQL Server allows any name.
CAPTURE = f"dbo.{TABLE}"
# The clock shows an hour twice in autumn, with a commit in each pass.
ZONE = "Europe/Berlin"
COMMITS = (
    ("2026-10-25T00:10:00.000", 1), ("2026-10-25T02:10:00.000", 2), ("2026-10-25T02:50:00.000", 3),
    ("2026-10-25T02:20:00.000", 4), ("2026-10-25T03:10:00.000", 5),
)  # fmt: skip
WINDOW = Window(start=datetime(2026, 10, 25, 0, 30, tzinfo=UTC), end=datetime(2026, 10, 26, tzinfo=UTC))
KINDS = ("int", "datetime2(7)", "time(3)", "sql_variant", "xml", "datetimeoffset(3)")


class SqlServer(Memory):
    """Answers with SQLite and records the statements as SQL Server would be asked them."""

    def __init__(self, script: str) -> None:
        super().__init__(script)
        self.asked_of_it: list[str] = []
        connection = {"conn_type": "mssql", "host": "sql.example", "schema": "shop"}
        self._tsql = JdbcDatabase("shop", Connection.model_validate(connection)).sql

    def rows(self, query: Select[Any]) -> list[Mapping[str, Any]]:
        self.note(query)
        return super().rows(query)

    def columns(self, source: FromClause) -> Sequence[str]:
        self.note(header(source))
        return super().columns(source)

    def note(self, query: Select[Any]) -> None:
        self.asked_of_it.append(self._tsql(query))


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def lsn(number: int) -> bytes:
    return number.to_bytes(10)


def feed_of(dialect: str, key: Sequence[str], **source: Any) -> Feed:
    kinds = zip(HOSTILE, (*KINDS, *["nvarchar(9)"] * len(HOSTILE)), strict=False)
    columns = [{"name": name, "type": kind} for name, kind in kinds]
    return Feed.model_validate(
        {
            "feed": "f", "dialect": dialect, "database": "shop", "connection": "c",
            "time_zone": ZONE if dialect == "sqlserver_cdc" else "UTC",
            "source": {"partition_rows": 1, **source},
            "tables": [{"table": f"dbo.{TABLE}", "key": list(key), "columns": columns}],
        }
    )  # fmt: skip


@pytest.fixture
def captured() -> Iterator[SqlServer]:
    header = '"__$start_lsn", "__$seqval", "__$operation", "__$update_mask", "__$command_id"'
    server = SqlServer(
        f"""
        CREATE TABLE cdc.change_tables
            (object_id, source_object_id, capture_instance, start_lsn, create_date);
        CREATE TABLE cdc.captured_columns
            (object_id, column_name, column_id, column_type, column_ordinal, is_computed);
        CREATE TABLE cdc.index_columns (object_id, column_name, index_ordinal);
        CREATE TABLE cdc.lsn_time_mapping (start_lsn, tran_end_time, tran_id);
        CREATE TABLE sys.tables (object_id, name, schema_id);
        CREATE TABLE sys.schemas (schema_id, name);
        CREATE TABLE sys.columns (object_id, name, column_id, max_length, precision, scale, is_nullable);
        INSERT INTO sys.schemas VALUES (1, 'dbo');
        CREATE TABLE cdc.{quoted(f"{CAPTURE}_CT")} ({header}, {", ".join(map(quoted, HOSTILE))});
        """
    )
    execute = server.session.executemany
    execute("INSERT INTO sys.tables VALUES (10, ?, 1)", [(TABLE,)])
    execute("INSERT INTO cdc.change_tables VALUES (20, 10, ?, ?, '2026-08-01')", [(CAPTURE, lsn(1))])
    execute(
        "INSERT INTO cdc.captured_columns VALUES (20, ?, ?, 'int', ?, 0)",
        [(name, at, at) for at, name in enumerate(HOSTILE, 1)],
    )
    execute("INSERT INTO cdc.lsn_time_mapping VALUES (?, ?, x'1A00')", [(lsn(n), at) for at, n in COMMITS])
    execute(
        f"INSERT INTO cdc.{quoted(f'{CAPTURE}_CT')} ({header}) VALUES (?, ?, 2, x'01', 1)",
        [(lsn(n), lsn(n)) for _, n in COMMITS],
    )
    yield server
    server.session.close()


@pytest.fixture
def stored() -> Iterator[SqlServer]:
    columns = ("header__change_seq", "header__change_oper", "header__timestamp", *HOSTILE)
    server = SqlServer(
        f"""
        CREATE TABLE information_schema.columns (table_schema, table_name, column_name, ordinal_position,
            data_type, is_nullable, character_maximum_length, numeric_precision, numeric_scale,
            datetime_precision);
        CREATE TABLE dbo.{quoted(f"{TABLE}__ct")} ({", ".join(map(quoted, columns))});
        """
    )
    kinds = ("character varying", "character varying", "datetime2", *["integer"] * len(HOSTILE))
    server.session.executemany(
        "INSERT INTO information_schema.columns VALUES ('dbo', ?, ?, ?, ?, 'YES', NULL, NULL, NULL, 3)",
        [(f"{TABLE}__ct", n, at, kind) for at, (n, kind) in enumerate(zip(columns, kinds, strict=True), 1)],
    )
    server.session.executemany(
        f"INSERT INTO dbo.{quoted(f'{TABLE}__ct')} (header__change_seq, header__change_oper) VALUES (?, ?)",
        [(f"20261025{minute:04}{0:023}", "I") for minute in range(3)],
    )
    yield server
    server.session.close()


def read_all(reader: TableReader, server: SqlServer) -> None:
    """Runs all queries of a feed's run.

    Records each part of a read twice: for the row count, and for Spark.
    """
    reader.check({})
    start, end = reader.bounds(WINDOW, {})
    reader.landmarks(end)
    reader.source_states(end, WINDOW.end)
    for table in reader.tables:
        queries = reader.queries(table, start.get(table.table), end.get(table.table))
        assert len(queries) > 1, "the read is cut into parts"
        for query in queries:
            server.note(query)
            server.note(printed(query, {HOSTILE[1]: 121, HOSTILE[2]: 23}))


def parsed(statement: str) -> exp.Expr:
    """Parses a single SELECT. Fails if the parser passed a part through unparsed."""
    trees = sqlglot.parse(statement, read="tsql", error_level=ErrorLevel.RAISE)
    assert len(trees) == 1, statement
    (tree,) = trees
    assert isinstance(tree, exp.Select), statement
    assert not list(tree.find_all(exp.Command)), statement
    return tree


def names(trees: Sequence[exp.Expr]) -> set[str]:
    return {identifier.this for tree in trees for identifier in tree.find_all(exp.Identifier)}


def hostile_names(identifiers: set[str]) -> set[str]:
    """Returns names with special characters: the tables' hostile names, or pieces of them."""
    return {name for name in identifiers if not name.replace("$", "").isidentifier()}


def test_what_cdc_tables_are_asked(captured: SqlServer) -> None:
    reader = CaptureTables(feed_of("sqlserver_cdc", HOSTILE[:1]), captured)
    read_all(reader, captured)
    trees = [parsed(statement) for statement in captured.asked_of_it]
    identifiers = names(trees)
    assert {*HOSTILE, f"{CAPTURE}_CT"} <= identifiers
    assert hostile_names(identifiers) <= {*HOSTILE, f"{CAPTURE}_CT"}, "no name is cut into others"
    assert any("__$commit_fold" in statement for statement in captured.asked_of_it), "an hour came twice"


def test_what_sql_servers_own_catalog_is_asked(captured: SqlServer) -> None:
    """Queries on masks, partitions, collations and the clock, which copies of the catalog do not have."""
    session = captured.session
    for name in ("system_type_id", "is_masked", "collation_name", "encryption_type"):
        session.execute(f"ALTER TABLE sys.columns ADD COLUMN {name}")
    session.executescript("""
        ALTER TABLE cdc.change_tables ADD COLUMN partition_switch;
        CREATE TABLE sys.partitions (object_id, partition_number);
    """)
    session.executemany(
        "INSERT INTO sys.columns VALUES (20, ?, ?, 4, 10, 0, 1, 56, 1, NULL, NULL)",
        [(name, at) for at, name in enumerate(HOSTILE, 1)],
    )
    answers = {
        "db_name": "shop", "quotename": "[shop]", "object_id": 20, "has_perms_by_name": 1,
        "databasepropertyex": "READ_WRITE", "sysdatetimeoffset": "2026-10-26 00:00:00.0000000 +01:00",
    }  # fmt: skip
    for function, answer in answers.items():
        session.create_function(function, -1, lambda *_, answer=answer: answer)
    reader = CaptureTables(feed_of("sqlserver_cdc", HOSTILE[:1]), captured)
    assert reader.cautions() == []
    reader.source_states({}, WINDOW.end)
    assert list(masked_columns(captured, "dbo", TABLE, HOSTILE)) == list(HOSTILE)
    trees = [parsed(statement) for statement in captured.asked_of_it]
    assert hostile_names(names(trees)) == set()
    # Texts that are not ASCII have an N before them.
    texts = {text.this for tree in trees for text in tree.find_all(exp.Literal, exp.National)}
    bracketed = {f"[cdc].[{CAPTURE.replace(']', ']]')}_CT]", f"[dbo].[{TABLE.replace(']', ']]')}]"}
    assert {*HOSTILE, *bracketed} <= texts, "a name as a text is one text"


def test_what_change_tables_of_qlik_are_asked(stored: SqlServer) -> None:
    read_all(ChangeTables(feed_of("qlik_tables", HOSTILE[:1]), stored), stored)
    trees = [parsed(statement) for statement in stored.asked_of_it]
    identifiers = names(trees)
    assert {*HOSTILE, f"{TABLE}__ct"} <= identifiers
    assert hostile_names(identifiers) <= {*HOSTILE, f"{TABLE}__ct"}
    texts = {literal.this for tree in trees for literal in tree.find_all(exp.Literal) if literal.is_string}
    assert TABLE + "__ct" in texts, "a name as a text is one text"


def test_what_the_proof_asks_of_a_source() -> None:
    columns = [Column(name=name, type="nvarchar(9)", ordinal=at) for at, name in enumerate(HOSTILE, 1)]
    columns[0] = columns[0].model_copy(update={"key_position": 1})
    contract = Contract(table=f"dbo.{TABLE}", columns=tuple(columns))
    source = named_table("dbo", TABLE, *contract.names)
    server = SqlServer("")
    moment = TimeMapping("cdc").highest_lsn().add_columns(snapshot_sql.UtcNow().label("at"))
    asked = [
        snapshot_sql.clock(), moment, header(source), snapshot_sql.row_count(source),
        snapshot_sql.cuts(source, contract, 1000), *snapshot_sql.parts(source, contract, ["a'b", b"\x01"]),
    ]  # fmt: skip
    for query in asked:
        server.note(query)
    identifiers = names([parsed(statement) for statement in server.asked_of_it])
    assert {*HOSTILE, TABLE} <= identifiers
    assert hostile_names(identifiers) <= {*HOSTILE, TABLE}
