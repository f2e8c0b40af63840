"""Reads windows of change tables, with the readers' SELECTs on a real database (SQLite)."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import FromClause, Select, literal_column, select
from sqlalchemy.dialects import mssql, postgresql, sqlite

from changeledger.config.feed import Feed
from changeledger.dialects.interface import TableReader
from changeledger.dialects.qlik_tables.reader import ChangeTables
from changeledger.dialects.sqlserver_cdc.dialect import source_table
from changeledger.dialects.sqlserver_cdc.reader import CaptureTables
from changeledger.model.errors import ConfigError, ContractError, SourceDataLostError, SourceUnavailable
from changeledger.model.window import Window


class Memory:
    """A `base.Database` in memory."""

    def __init__(self, script: str) -> None:
        self.session = sqlite3.connect(":memory:", isolation_level=None)
        self.session.row_factory = sqlite3.Row
        for schema in ("cdc", "sys", "dbo", "information_schema"):
            self.session.execute(f"ATTACH ':memory:' AS {schema}")
        self.session.executescript(script)

    def rows(self, query: Select[Any]) -> list[Mapping[str, Any]]:
        return [dict(row) for row in self.asked(query)]

    def columns(self, source: FromClause) -> Sequence[str]:
        return [d[0] for d in self.asked(select(literal_column("*")).select_from(source)).description]

    def asked(self, query: Select[Any]) -> sqlite3.Cursor:
        # SQLite stores times as text and would cast them to a number.
        plain = re.sub(r"CAST\(('[^']*') AS DATETIME\)", r"\1", sql(query, sqlite.dialect()))
        return self.session.execute(plain)


@pytest.mark.parametrize(
    "name",
    [
        "dbo_orders", "dbo_orders_CT", "cdc.dbo_orders_CT", "[cdc].[dbo_orders_CT]", "CDC.dbo_orders_ct",
        "fn_cdc_get_all_changes_dbo_orders", "cdc.fn_cdc_get_net_changes_dbo_orders", "dbo.orders",
    ],
)  # fmt: skip
def test_what_rows_are_read_from_names_their_table(name: str) -> None:
    assert source_table(name) == "dbo.orders"


def sql(query: Select[Any], dialect: Any) -> str:
    text = str(query.compile(dialect=dialect, compile_kwargs={"literal_binds": True}))
    return " ".join(text.split())


def feed(dialect: str, **members: Any) -> Feed:
    usual = {"feed": "f", "dialect": dialect, "database": "shop", "connection": "c", "source": {}}
    return Feed.model_validate({**usual, **members})


def hour(at: int) -> Window:
    return Window(start=datetime(2026, 8, 7, at, tzinfo=UTC), end=datetime(2026, 8, 7, at + 1, tzinfo=UTC))


def read(reader: TableReader, memory: Memory, start: Any, end: Any, what: str) -> list[Any]:
    """Returns a column of all rows that the window reads, in order."""
    return [
        row[what]
        for reported in reader.tables
        for query in reader.queries(reported, start.get(reported.table), end.get(reported.table))
        for row in memory.rows(query)
    ]


# --- Qlik

QLIK = """
CREATE TABLE information_schema.columns (table_schema, table_name, column_name, ordinal_position, data_type,
    is_nullable, character_maximum_length, numeric_precision, numeric_scale, datetime_precision);
CREATE TABLE dbo.orders__ct (header__change_seq, header__change_oper, header__timestamp, id, "a b");
INSERT INTO information_schema.columns VALUES
    ('dbo', 'orders__ct', 'header__change_seq', 1, 'character varying', 'NO', 35, NULL, NULL, NULL),
    ('dbo', 'orders__ct', 'header__change_oper', 2, 'character varying', 'NO', 1, NULL, NULL, NULL),
    ('dbo', 'orders__ct', 'header__timestamp', 4, 'timestamp without time zone', 'YES', NULL, NULL, NULL, 3),
    ('dbo', 'orders__ct', 'id', 5, 'integer', 'NO', NULL, 32, 0, NULL),
    ('dbo', 'orders__ct', 'a b', 7, 'numeric', 'YES', NULL, 18, 4, NULL);
"""


def seq(clock: str, number: int) -> str:
    return f"20260807{clock}00{number:019}"


def filled(*rows: tuple[str | None, str | None, int]) -> Memory:
    """A Qlik change table with rows `(change_seq, time of day, id)`."""
    memory = Memory(QLIK)
    memory.session.executemany(
        "INSERT INTO dbo.orders__ct VALUES (?, 'I', ?, ?, NULL)",
        [(s, at and f"2026-08-07T{at}.000", number) for s, at, number in rows],
    )
    return memory


def qlik(memory: Memory, *tables: str, **source: Any) -> ChangeTables:
    """Reads these tables, or `dbo.orders`."""
    keyed = [{"table": table, "key": ["id"]} for table in tables or ("dbo.orders",)]
    return ChangeTables(feed("qlik_tables", tables=keyed, source=source), memory)


def test_ordinals_count_the_columns_that_there_are() -> None:
    (reported,) = qlik(filled()).tables
    assert (reported.table, reported.instance) == ("dbo.orders", "dbo.orders__ct")
    # Positions 3 and 6 were dropped. The bits of a mask count the existing columns, header first.
    assert [(c.name, c.type, c.ordinal, c.key_position) for c in reported.writer_schema.columns] == [
        ("id", "int", 4, 1),
        ("a b", "numeric(18,4)", 5, 0),
    ]


def test_a_window_ends_before_its_end_by_the_timestamp() -> None:
    memory = filled(
        (seq("095958", 1), "09:59:59", 1),
        (seq("100000", 2), "10:00:00", 2),
        # Its change_seq lags behind, so the timestamp decides.
        (seq("105959", 3), "11:00:01", 3),
    )
    reader = qlik(memory)
    assert reader.bounds(hour(10), {}) == ({}, {"dbo.orders": seq("100000", 2)})
    first = reader.bounds(hour(9), {})
    assert first == ({}, {"dbo.orders": seq("095958", 1)})
    start, end = reader.bounds(hour(10), first[1])
    assert read(reader, memory, start, end, "id") == [2]
    start, end = reader.bounds(hour(11), end)
    assert read(reader, memory, start, end, "id") == [3]


def test_both_rows_of_an_update_are_read_together() -> None:
    memory = filled((seq("100000", 2), "10:00:00", 1), (seq("100000", 2), "10:00:00", 2))
    reader = qlik(memory)
    start, end = reader.bounds(hour(10), {"dbo.orders": seq("095959", 1)})
    assert read(reader, memory, start, end, "id") == [1, 2]


def test_a_table_that_is_filled_late_loses_nothing() -> None:
    memory = filled((seq("093000", 1), "09:30:00", 1))
    reader = qlik(memory)
    _, end = reader.bounds(hour(9), {})
    _, end = reader.bounds(hour(10), end)
    assert end == {"dbo.orders": seq("093000", 1)}
    # A change of 09:40 arrives only at eleven.
    memory.session.execute(
        "INSERT INTO dbo.orders__ct VALUES (?, 'I', '2026-08-07T09:40:00.000', 2, 0)", [seq("094000", 2)]
    )
    start, end = reader.bounds(hour(11), end)
    assert read(reader, memory, start, end, "id") == [2]


def test_a_window_of_the_past_reads_again_what_it_covers() -> None:
    memory = filled(*((seq(f"{at:02}3000", at), f"{at:02}:30:00", at) for at in (8, 9, 10, 11)))
    reader = qlik(memory)
    start, end = reader.bounds(hour(9), {"dbo.orders": seq("113000", 11)})
    assert read(reader, memory, start, end, "id") == [9]


def test_without_a_timestamp_the_time_in_the_change_seq_counts() -> None:
    memory = filled((seq("095959", 1), None, 1), (seq("100000", 2), None, 2))
    memory.session.execute("DELETE FROM information_schema.columns WHERE column_name LIKE '%timestamp'")
    assert qlik(memory).bounds(hour(9), {}) == ({}, {"dbo.orders": seq("095959", 1)})


def test_a_time_that_is_not_known_is_no_reason_to_wait() -> None:
    memory = filled((seq("093000", 1), None, 1))
    assert qlik(memory).bounds(hour(9), {}) == ({}, {"dbo.orders": seq("093000", 1)})


def test_rows_without_a_place_are_read_by_every_window() -> None:
    broken = "not a change_seq but as long as one.."
    memory = filled((None, None, 1), (broken[:35], "10:00:00", 2), ("1", "10:00:00", 3))
    reader = qlik(memory)
    start, end = reader.bounds(hour(10), {})
    assert end == {}
    assert read(reader, memory, start, end, "id") == [1, 2, 3]
    memory.session.execute(
        "INSERT INTO dbo.orders__ct VALUES (?, 'I', '2026-08-07T10:40:00.000', 4, 0)", [seq("104000", 2)]
    )
    start, end = reader.bounds(hour(10), {})
    assert end == {"dbo.orders": seq("104000", 2)}
    assert sorted(read(reader, memory, start, end, "id")) == [1, 2, 3, 4]


def test_a_large_window_is_read_in_parts() -> None:
    rows = [(seq(f"10{minute:02}00", minute), f"10:{minute:02}:00", minute) for minute in range(10)]
    memory = filled(*rows, (None, None, 10))
    reader = qlik(memory, partition_rows=3)
    start, end = reader.bounds(hour(10), {})
    (reported,) = reader.tables
    parts = [
        [row["id"] for row in memory.rows(query)]
        for query in reader.queries(reported, None, end["dbo.orders"])
    ]
    assert parts == [[0, 1, 2, 10], [3, 4, 5], [6, 7, 8], [9]]
    assert read(reader, memory, start, {"dbo.orders": seq("100200", 2)}, "id") == [0, 1, 2, 10]


def test_a_table_that_was_filled_again_is_a_gap() -> None:
    reader = qlik(filled((seq("093000", 1), "09:30:00", 1)))
    with pytest.raises(SourceDataLostError, match="orders__ct ends at"):
        reader.check({"dbo.orders": seq("103000", 9)})
    # An empty table may have been archived. A quiet table ends where the last run stopped.
    reader.check({"dbo.orders": seq("093000", 1)})
    qlik(filled()).check({"dbo.orders": seq("103000", 9)})


def test_a_task_that_is_begun_anew_with_an_earlier_clock_is_a_gap() -> None:
    """The table is kept, so it still ends where the last run stopped.

    Nothing else reveals the new changes below.
    """
    memory = filled((seq("093000", 1), "09:30:00", 1), (seq("203000", 2), "09:40:00", 2))
    reader = qlik(memory)
    _, end = reader.bounds(hour(9), {})
    assert end == {"dbo.orders": seq("203000", 2)}
    assert reader.bounds(hour(10), end) == (end, end), "quiet"
    insert = "INSERT INTO dbo.orders__ct VALUES (?, 'I', ?, 3, 0)"
    memory.session.execute(insert, [seq("113000", 3), "2026-08-07T11:30:00.000"])
    reader.check(end)
    assert reader.bounds(hour(10), end) == (end, end), "not of the window"
    said = f"up to {seq('113000', 3)} that are later than {seq('203000', 2)}"
    for at in (11, 12):
        with pytest.raises(SourceDataLostError, match=said):
            reader.bounds(hour(at), end)


def test_a_change_of_a_moment_before_that_is_read_already_is_no_gap() -> None:
    """Commit times may be out of order by milliseconds: the task's change_seq does not wait for them."""
    memory = filled((seq("105959", 1), "11:00:00", 1), (seq("105959", 2), "10:59:59", 2))
    reader = qlik(memory)
    _, end = reader.bounds(hour(10), {})
    assert reader.bounds(hour(11), end) == (end, end)
    # The clock was set back during one task: its change_seq stays, and counts on.
    memory = filled((seq("123000", 1), "10:30:00", 1), (seq("123000", 2), "11:30:00", 2))
    reader = qlik(memory)
    _, end = reader.bounds(hour(10), {})
    assert reader.bounds(hour(11), end) == (end, {"dbo.orders": seq("123000", 2)})


def test_a_table_that_is_filled_again_between_two_looks_is_seen_at_the_second() -> None:
    memory = filled((seq("103000", 9), "10:30:00", 9))
    reader = qlik(memory)
    reader.check({"dbo.orders": seq("103000", 9)})
    memory.session.execute("UPDATE dbo.orders__ct SET header__change_seq = ?", [seq("093000", 1)])
    with pytest.raises(SourceDataLostError, match="orders__ct ends at"):
        reader.check({"dbo.orders": seq("103000", 9)})


@pytest.mark.parametrize(
    ("change", "source", "error", "words"),
    [
        ("DELETE FROM information_schema.columns", {}, ConfigError, "no change table dbo.orders__ct"),
        ("SELECT 1", {"target_schema": "other"}, ConfigError, "no change table other.orders__ct"),
        ("SELECT 1", {"header_prefix": "hdr_"}, ConfigError, "lacks hdr_change_seq"),
        (
            "DELETE FROM information_schema.columns WHERE column_name LIKE '%change_oper'",
            {},
            ConfigError,
            "both header__change_oper and header__operation",
        ),
        (
            "UPDATE information_schema.columns SET numeric_precision = NULL WHERE column_name = 'a b'",
            {},
            ContractError,
            "dbo.orders.a b has the type numeric",
        ),
        (
            "UPDATE information_schema.columns SET column_name = 'no' WHERE column_name = 'id'",
            {},
            ContractError,
            "the key of dbo.orders has id",
        ),
    ],
)
def test_tables_that_cannot_be_read(
    change: str, source: dict[str, str], error: type[Exception], words: str
) -> None:
    memory = filled()
    memory.session.execute(change)
    with pytest.raises(error, match=words):
        qlik(memory, **source)


def test_a_table_without_a_key_needs_one_in_the_feed() -> None:
    with pytest.raises(ContractError, match="state `key:`"):
        ChangeTables(feed("qlik_tables", tables=[{"table": "dbo.orders"}], source={}), filled())


def test_names_in_another_case_and_columns_of_another_prefix() -> None:
    memory = filled()
    memory.session.execute("UPDATE information_schema.columns SET table_name = 'ORDERS__CT'")
    memory.session.execute("UPDATE information_schema.columns SET column_name = upper(column_name)")
    (reported,) = qlik(memory).tables
    assert (reported.instance, reported.writer_schema.names) == ("dbo.ORDERS__CT", ("ID", "A B"))


def test_of_qlik_tables_that_differ_in_case_the_very_one_is_read() -> None:
    memory = filled((seq("100000", 1), "10:00:00", 1))
    memory.session.executescript("""
        INSERT INTO information_schema.columns
            SELECT table_schema, 'Orders__ct', column_name, ordinal_position, data_type, is_nullable,
                character_maximum_length, numeric_precision, numeric_scale, datetime_precision
            FROM information_schema.columns;
        INSERT INTO information_schema.columns
            SELECT 'DBO', table_name, column_name, ordinal_position, data_type, is_nullable,
                character_maximum_length, numeric_precision, numeric_scale, datetime_precision
            FROM information_schema.columns WHERE table_name = 'orders__ct';
    """)
    (reported,) = qlik(memory).tables
    assert (reported.table, reported.instance) == ("dbo.orders", "dbo.orders__ct")
    (other,) = qlik(memory, "dbo.Orders").tables
    assert (other.table, other.instance) == ("dbo.Orders", "dbo.Orders__ct")
    with pytest.raises(ConfigError, match=r"dbo.ORDERS may be one of several tables") as raised:
        qlik(memory, "dbo.ORDERS")
    assert "DBO.orders__ct, dbo.Orders__ct, dbo.orders__ct" in raised.value.message


def two_schemas() -> Memory:
    """Two schemas with a table `orders__ct`, each with its own row."""
    memory = filled((seq("100000", 1), "10:00:00", 1))
    memory.session.executescript(f"""
        CREATE TABLE cdc.orders__ct AS SELECT * FROM dbo.orders__ct;
        UPDATE cdc.orders__ct SET id = 2, header__change_seq = '{seq("100001", 2)}';
        INSERT INTO information_schema.columns
            SELECT 'cdc', table_name, column_name, ordinal_position, data_type, is_nullable,
                character_maximum_length, numeric_precision, numeric_scale, datetime_precision
            FROM information_schema.columns;
    """)
    return memory


def test_qlik_tables_of_one_name_in_two_schemas_are_two() -> None:
    memory = two_schemas()
    reader = qlik(memory, "dbo.orders", "cdc.orders")
    assert [(t.table, t.instance) for t in reader.tables] == [
        ("dbo.orders", "dbo.orders__ct"), ("cdc.orders", "cdc.orders__ct"),
    ]  # fmt: skip
    _, end = reader.bounds(hour(10), {})
    assert end == {"dbo.orders": seq("100000", 1), "cdc.orders": seq("100001", 2)}
    assert read(reader, memory, {}, end, "id") == [1, 2]


def test_one_qlik_table_is_not_read_as_two() -> None:
    with pytest.raises(ConfigError, match=r"sales.orders and hr.orders are both in dbo.orders__ct"):
        qlik(two_schemas(), "sales.orders", "hr.orders", target_schema="dbo")


def test_a_qlik_table_is_known_again_by_the_case_of_its_name() -> None:
    """A table that appears in another case is another table.

    The only table is read, in whatever case.
    """
    memory = filled((seq("100000", 1), "10:00:00", 1))
    position = {"dbo.Orders": seq("100000", 1)}
    before = qlik(memory, "dbo.Orders").landmarks(position)
    memory.session.executescript("UPDATE information_schema.columns SET table_name = 'Orders__ct'")
    after = qlik(memory, "dbo.Orders").landmarks(position)
    # An earlier version stored the beginning, without the schema, which `target_schema` may change.
    assert (before["dbo.Orders"], after["dbo.Orders"]) == tuple(
        f"{seq('100000', 1)} ({name}) of dbo" for name in ("orders__ct", "Orders__ct")
    )


def test_the_selects_of_a_window_in_each_database() -> None:
    memory = filled()
    reader = qlik(memory)
    (query,) = reader.queries(reader.tables[0], seq("090000", 1), seq("100000", 2))
    placed = (
        "{t}.header__change_seq IS NOT NULL AND {length}({t}.header__change_seq) = 35 "
        "AND {t}.header__change_seq >= '0' AND {t}.header__change_seq <= '" + "9" * 35 + "'"
    )
    for dialect, table, name, length in (
        (mssql.dialect(), "dbo.orders__ct", "[a b]", "LEN"),
        (postgresql.dialect(), "dbo.orders__ct", '"a b"', "char_length"),
    ):
        known = placed.format(t=table, length=length)
        assert sql(query, dialect) == (
            f"SELECT {table}.header__change_seq, {table}.header__change_oper, {table}.header__timestamp, "
            f"{table}.id AS id, {table}.{name} AS {name} FROM {table} WHERE {known} "
            f"AND {table}.header__change_seq > '{seq('090000', 1)}' "
            f"AND {table}.header__change_seq <= '{seq('100000', 2)}' OR NOT ({known})"
        )


def test_how_far_a_qlik_table_reaches_with_the_time_of_its_change_seq() -> None:
    noon = datetime(2026, 8, 7, 12, tzinfo=UTC)
    reader = qlik(filled((seq("095958", 1), "09:59:58", 1), (seq("100000", 2), "10:00:00", 2)))
    (state,) = reader.source_states({"dbo.orders": seq("095958", 1)}, noon)
    assert (state.source, state.read, state.end) == ("dbo.orders__ct", seq("095958", 1), seq("100000", 2))
    assert state.newest == datetime(2026, 8, 7, 10, tzinfo=UTC)
    assert not state.is_late(noon + timedelta(days=9), timedelta(hours=3)), "a quiet task leaves no marks"
    (empty,) = qlik(filled()).source_states({}, noon)
    assert (empty.read, empty.end, empty.newest) == ("", "", None)


# --- SQL Server

CDC = """
CREATE TABLE sys.schemas (schema_id, name);
CREATE TABLE sys.tables (object_id, name, schema_id);
CREATE TABLE sys.columns (object_id, name, column_id, max_length, precision, scale, is_nullable);
CREATE TABLE cdc.change_tables (object_id, source_object_id, capture_instance, start_lsn, create_date);
CREATE TABLE cdc.captured_columns
    (object_id, column_name, column_id, column_type, column_ordinal, is_computed);
CREATE TABLE cdc.index_columns (object_id, column_name, index_ordinal);
CREATE TABLE cdc.lsn_time_mapping (start_lsn, tran_end_time, tran_id);
INSERT INTO sys.schemas VALUES (1, 'dbo');
INSERT INTO sys.tables VALUES (10, 'orders', 1);
CREATE TABLE cdc.dbo_orders_CT ("__$start_lsn", "__$operation", id, old);
CREATE TABLE cdc.dbo_orders_2_CT ("__$start_lsn", "__$operation", id, new);
INSERT INTO cdc.captured_columns VALUES (20, 'id', 1, 'int', 1, 0), (20, 'old', 2, 'int', 2, 0),
    (21, 'id', 1, 'int', 1, 0), (21, 'new', 3, 'int', 3, 0);
INSERT INTO cdc.index_columns VALUES (20, 'id', 1), (21, 'id', 1);
"""


def lsn(number: int) -> bytes:
    return number.to_bytes(10)


def text(number: int) -> str:
    return lsn(number).hex().upper()


@pytest.fixture
def captured() -> Iterator[Memory]:
    """Transactions 1 to 6, ten minutes apart from 10:10 on. A second instance captures from 4 on."""
    memory = Memory(CDC)
    execute = memory.session.executemany
    instances = [(20, "dbo_orders", 1, "2026-08-01"), (21, "dbo_orders_2", 4, "2026-08-06")]
    execute(
        "INSERT INTO cdc.change_tables VALUES (?, 10, ?, ?, ?)",
        [(number, name, lsn(start), created) for number, name, start, created in reversed(instances)],
    )
    execute(
        "INSERT INTO cdc.lsn_time_mapping VALUES (?, ?, x'1A00')",
        [(lsn(n), f"2026-08-07T10:{n}0:00.000") for n in range(1, 6)] + [(lsn(6), "2026-08-07T11:00:00.000")],
    )
    execute("INSERT INTO cdc.dbo_orders_CT VALUES (?, 2, ?, 0)", [(lsn(n), n) for n in range(1, 7)])
    execute("INSERT INTO cdc.dbo_orders_2_CT VALUES (?, 2, ?, 0)", [(lsn(n), 100 + n) for n in range(4, 7)])
    yield memory
    memory.session.close()


def cdc(memory: Memory, *tables: str, time_zone: str = "UTC", **source: Any) -> CaptureTables:
    """Reads these tables, or `dbo.orders`."""
    named = [{"table": table} for table in tables or ("dbo.orders",)]
    return CaptureTables(feed("sqlserver_cdc", tables=named, source=source, time_zone=time_zone), memory)


def test_the_older_instance_counts_up_to_where_the_newer_one_begins(captured: Memory) -> None:
    reader = cdc(captured)
    assert [(t.table, t.instance, t.writer_schema.names) for t in reader.tables] == [
        ("dbo.orders", "dbo_orders", ("id", "old")),
        ("dbo.orders", "dbo_orders_2", ("id", "new")),
    ]
    start, end = reader.bounds(hour(11), {})
    assert (start, end) == ({}, {"dbo.orders": text(6)})
    assert read(reader, captured, start, end, "id") == [1, 2, 3, 104, 105, 106]


@pytest.mark.parametrize(
    ("after", "to", "ids"),
    [(None, 3, [1, 2, 3]), (2, 4, [3, 104]), (3, 5, [104, 105]), (4, 6, [105, 106]), (5, 6, [106])],
)
def test_windows_on_either_side_of_the_change(
    captured: Memory, after: int | None, to: int, ids: list[int]
) -> None:
    start = {} if after is None else {"dbo.orders": text(after)}
    assert read(cdc(captured), captured, start, {"dbo.orders": text(to)}, "id") == ids


def test_a_column_that_was_dropped_at_the_source_is_captured_as_null(captured: Memory) -> None:
    assert [c.dropped for part in cdc(captured).tables for c in part.writer_schema.columns] == [False] * 4
    captured.session.executescript("""
        INSERT INTO sys.columns VALUES (10, 'id', 1, 4, 10, 0, 0), (10, 'new', 3, 4, 10, 0, 1);
    """)
    assert dropped(captured) == [["old"], []]


def test_a_column_that_was_dropped_and_added_again_is_captured_as_null(captured: Memory) -> None:
    """A column added again under an old name is another column by its id. A renamed one keeps its id."""
    captured.session.executescript("""
        INSERT INTO sys.columns VALUES (10, 'id', 1, 4, 10, 0, 0), (10, 'renamed', 3, 4, 10, 0, 1),
            (10, 'old', 4, 4, 10, 0, 1);
    """)
    assert dropped(captured) == [["old"], []]


def test_a_copy_of_the_catalog_without_ids_knows_columns_by_their_names(captured: Memory) -> None:
    captured.session.executescript("""
        ALTER TABLE sys.columns DROP COLUMN column_id;
        INSERT INTO sys.columns VALUES (10, 'id', 4, 10, 0, 0), (10, 'new', 4, 10, 0, 1);
    """)
    assert dropped(captured) == [["old"], []]


def dropped(memory: Memory) -> list[list[str]]:
    of_parts = [part.writer_schema.columns for part in cdc(memory).tables]
    return [[c.name for c in columns if c.dropped] for columns in of_parts]


def test_a_clean_up_moves_both_instances(captured: Memory) -> None:
    """A clean-up leaves the transaction of its LSN to the newer instance, as before.

    Both instances have that transaction, but only the newer one has all columns.
    """
    captured.session.execute("UPDATE cdc.change_tables SET start_lsn = ?", [lsn(5)])
    captured.session.execute('DELETE FROM cdc.dbo_orders_CT WHERE "__$start_lsn" < ?', [lsn(5)])
    captured.session.execute('DELETE FROM cdc.dbo_orders_2_CT WHERE "__$start_lsn" < ?', [lsn(5)])
    reader = cdc(captured)
    assert [reported.instance for reported in reader.tables] == ["dbo_orders", "dbo_orders_2"]
    assert read(reader, captured, {}, {"dbo.orders": text(6)}, "id") == [105, 106]
    reader.check({"dbo.orders": text(5)})
    with pytest.raises(SourceDataLostError, match="dbo_orders_CT begins at 00000000000000000005"):
        reader.check({"dbo.orders": text(4)})


def test_rows_that_a_clean_up_has_not_come_to_yet_are_not_read(captured: Memory) -> None:
    """A clean-up moves `start_lsn` first, so rows below it are not read.

    It then deletes rows in batches, and may fail to delete those of one table. A transaction may have lost
    some of its rows, and its commit time.
    """
    captured.session.execute("UPDATE cdc.change_tables SET start_lsn = ? WHERE object_id = 20", [lsn(3)])
    captured.session.execute("DELETE FROM cdc.lsn_time_mapping WHERE start_lsn < ?", [lsn(3)])
    assert read(cdc(captured), captured, {}, {"dbo.orders": text(6)}, "id") == [3, 104, 105, 106]
    assert read(cdc(captured), captured, {"dbo.orders": text(1)}, {"dbo.orders": text(3)}, "id") == [3]


def test_a_clean_up_of_the_older_instance_alone_leaves_the_newer_one_to_be_read(captured: Memory) -> None:
    """`sys.sp_cdc_cleanup_change_table` moves the `start_lsn` of one instance.

    Columns that only the newer instance captures must not be lost.
    """
    captured.session.execute("UPDATE cdc.change_tables SET start_lsn = ? WHERE object_id = 20", [lsn(5)])
    captured.session.execute('DELETE FROM cdc.dbo_orders_CT WHERE "__$start_lsn" < ?', [lsn(5)])
    reader = cdc(captured)
    assert [reported.instance for reported in reader.tables] == ["dbo_orders_2"]
    reader.check({"dbo.orders": text(4)})
    assert read(reader, captured, {}, {"dbo.orders": text(6)}, "id") == [104, 105, 106]


def test_a_clean_up_between_two_looks_is_seen_at_the_second(captured: Memory) -> None:
    """`start_lsn` moves before rows are deleted: a reader that asks again afterwards knows what was lost."""
    reader = cdc(captured)
    reader.check({"dbo.orders": text(4)})
    captured.session.execute("UPDATE cdc.change_tables SET start_lsn = ?", [lsn(6)])
    captured.session.execute('DELETE FROM cdc.dbo_orders_2_CT WHERE "__$start_lsn" < ?', [lsn(6)])
    with pytest.raises(SourceDataLostError, match="begins at 00000000000000000006"):
        reader.check({"dbo.orders": text(4)})


def test_the_newer_instance_alone_must_reach_back(captured: Memory) -> None:
    captured.session.execute("DELETE FROM cdc.change_tables WHERE object_id = 20")
    cdc(captured).check({"dbo.orders": text(4)})
    with pytest.raises(SourceDataLostError, match="dbo_orders_2_CT begins at") as raised:
        cdc(captured).check({"dbo.orders": text(3)})
    assert "clean-up job; let the source send a snapshot, then" in raised.value.remedy
    assert "`changeledger reset " in raised.value.remedy


def test_a_window_ends_at_the_last_commit_before_its_end(captured: Memory) -> None:
    reader = cdc(captured)
    assert reader.bounds(hour(10), {}) == ({}, {"dbo.orders": text(5)})
    assert reader.bounds(hour(11), {"dbo.orders": text(5)}) == (
        {"dbo.orders": text(5)},
        {"dbo.orders": text(6)},
    )
    # A window of the past begins before the rows that were already read.
    past = reader.bounds(hour(10), {"dbo.orders": text(6)})
    assert past == ({"dbo.orders": text(0)}, {"dbo.orders": text(5)})


def test_a_table_that_is_new_in_the_feed_is_read_from_its_beginning(captured: Memory) -> None:
    start, end = cdc(captured).bounds(hour(11), {"dbo.others": text(5)})
    assert ("dbo.orders" in start, end["dbo.orders"]) == (False, text(6))


def test_a_capture_that_begins_behind_the_window_has_no_position_yet(captured: Memory) -> None:
    captured.session.execute("UPDATE cdc.change_tables SET start_lsn = ?", [lsn(6)])
    reader = cdc(captured)
    start, end = reader.bounds(hour(10), {})
    assert (start, end) == ({}, {})
    reader.check(end)
    assert read(reader, captured, start, end, "id") == []


def test_nothing_captured_yet(captured: Memory) -> None:
    captured.session.execute("DELETE FROM cdc.lsn_time_mapping")
    assert cdc(captured).bounds(hour(10), {}) == ({}, {})


def test_a_capture_job_that_stands_still_is_reported(
    captured: Memory, caplog: pytest.LogCaptureFixture
) -> None:
    reader = cdc(captured)
    reader.bounds(hour(11), {})
    assert not caplog.messages
    assert reader.bounds(hour(13), {"dbo.orders": text(6)})[1] == {"dbo.orders": text(6)}
    assert "the capture job may be stopped" in caplog.text


def test_how_far_a_source_is_captured_in_its_own_zone(captured: Memory) -> None:
    """Takes the highest LSN of lsn_time_mapping and its time: 11:00 in Berlin is 9:00 UTC in August."""
    at = datetime(2026, 8, 7, 12, 30, tzinfo=UTC)
    reader = cdc(captured, time_zone="Europe/Berlin")
    (state,) = reader.source_states({"dbo.orders": text(5)}, at)
    assert (state.source, state.read, state.end) == ("cdc.lsn_time_mapping", text(5), text(6))
    assert state.newest == datetime(2026, 8, 7, 9, tzinfo=UTC)
    assert state.is_late(at, timedelta(hours=3)), "not even the marks of an idle log since"
    captured.session.execute("DELETE FROM cdc.lsn_time_mapping")
    (state,) = cdc(captured, time_zone="Europe/Berlin").source_states({}, at)
    assert (state.end, state.newest, state.is_odd) == ("", None, True)


def test_a_source_that_ends_before_what_was_read(captured: Memory) -> None:
    """A readable secondary whose redo is behind that of the other one ends so, too: nothing of it is lost."""
    with pytest.raises(SourceDataLostError, match="the source ends at") as raised:
        cdc(captured).check({"dbo.orders": text(7)})
    assert "run the window again when it has caught up; else let the source send" in raised.value.remedy


def test_a_position_is_known_again_by_its_commit_time(captured: Memory) -> None:
    released = {"dbo.orders": text(5)}
    before = cdc(captured).landmarks(released)
    assert before["dbo.orders"].startswith(text(5))
    assert cdc(captured).landmarks(released) == before
    captured.session.execute(
        "UPDATE cdc.lsn_time_mapping SET tran_end_time = '2031-01-01 00:00:00' WHERE start_lsn = ?", [lsn(5)]
    )
    assert cdc(captured).landmarks(released) != before


def test_a_source_that_was_restored_and_has_grown(captured: Memory) -> None:
    captured.session.execute("DELETE FROM cdc.lsn_time_mapping WHERE start_lsn = ?", [lsn(5)])
    reader = cdc(captured)
    reader.check({"dbo.orders": text(5)})
    with pytest.raises(SourceDataLostError, match=r"no longer has transaction 0+5,.*restored"):
        reader.landmarks({"dbo.orders": text(5)})


def test_a_position_that_a_clean_up_has_removed_says_nothing(captured: Memory) -> None:
    captured.session.execute("DELETE FROM cdc.lsn_time_mapping WHERE start_lsn <= ?", [lsn(5)])
    assert cdc(captured).landmarks({"dbo.orders": text(5)}) == {}


def test_a_large_window_of_transactions_is_read_in_parts(captured: Memory) -> None:
    reader = cdc(captured, partition_rows=2)
    parts = [
        [row["id"] for row in captured.rows(query)]
        for query in reader.queries(reader.tables[0], None, text(6))
    ]
    assert parts == [[1, 2], [3]]


def test_a_mark_of_an_idle_log_gives_no_commit_time(captured: Memory) -> None:
    """`tran_id` 0x00 marks no transaction. Each row has its own commit time and is read once."""
    marks = "INSERT INTO cdc.lsn_time_mapping VALUES (?, '2026-08-07T09:59:59.000', x'00')"
    captured.session.executemany(marks, [[lsn(n)] for n in range(1, 4)])
    reader = cdc(captured)
    read = [row for query in reader.queries(reader.tables[0], None, text(3)) for row in captured.rows(query)]
    times = [(row["id"], str(row["__$commit_time"])[11:16]) for row in read]
    assert times == [(1, "10:10"), (2, "10:20"), (3, "10:30")]


def test_a_table_that_is_not_captured(captured: Memory) -> None:
    captured.session.execute("DELETE FROM cdc.change_tables")
    with pytest.raises(ConfigError, match=r"dbo\.orders has no capture instance"):
        cdc(captured)


def other_table(memory: Memory, start: bytes | None) -> CaptureTables:
    """Enables a second table, which has no LSN yet (`start` is None) or a single one."""
    memory.session.executescript("""
        INSERT INTO sys.tables VALUES (11, 'items', 1);
        CREATE TABLE cdc.dbo_items_CT ("__$start_lsn", "__$operation", id);
        INSERT INTO cdc.captured_columns VALUES (22, 'id', 1, 'int', 1, 0);
        INSERT INTO cdc.index_columns VALUES (22, 'id', 1);
    """)
    memory.session.execute(
        "INSERT INTO cdc.change_tables VALUES (22, 11, 'dbo_items', ?, '2026-08-07')", [start]
    )
    return cdc(memory, "dbo.orders", "dbo.items")


def test_a_table_that_was_just_enabled_is_waited_for(
    captured: Memory, caplog: pytest.LogCaptureFixture
) -> None:
    """`start_lsn` is NULL until the capture job begins the instance. Other tables are read meanwhile."""
    reader = other_table(captured, None)
    released = {"dbo.orders": text(2)}
    reader.check(released)
    start, end = reader.bounds(hour(11), released)
    assert (start, end) == (released, {"dbo.orders": text(6)})
    assert "nothing is captured yet of dbo.items" in caplog.text
    assert sorted(read(reader, captured, start, end, "id")) == [3, 104, 105, 106]
    reader.check(released)
    # The capture job begins the instance. The next window reads it from the start.
    captured.session.execute("UPDATE cdc.change_tables SET start_lsn = ? WHERE object_id = 22", [lsn(5)])
    captured.session.execute("INSERT INTO cdc.dbo_items_CT VALUES (?, 2, 200)", [lsn(6)])
    reader = cdc(captured, "dbo.orders", "dbo.items")
    start, end = reader.bounds(hour(11), end)
    assert end == {"dbo.orders": text(6), "dbo.items": text(6)}
    assert read(reader, captured, start, end, "id") == [106, 200]


def test_a_table_that_was_enabled_again_has_lost_what_was_before(captured: Memory) -> None:
    captured.session.execute("DELETE FROM cdc.change_tables WHERE object_id = 21")
    captured.session.execute("UPDATE cdc.change_tables SET start_lsn = NULL")
    with pytest.raises(SourceDataLostError, match=r"enabled again.*dbo_orders_CT begins at no LSN yet"):
        cdc(captured).check({"dbo.orders": text(4)})


def test_an_instance_that_was_just_made_leaves_the_older_one_to_be_read(captured: Memory) -> None:
    captured.session.execute("UPDATE cdc.change_tables SET start_lsn = NULL WHERE object_id = 21")
    reader = cdc(captured)
    assert [reported.instance for reported in reader.tables] == ["dbo_orders"]
    start, end = reader.bounds(hour(11), {"dbo.orders": text(4)})
    assert read(reader, captured, start, end, "id") == [5, 6]
    reader.check({"dbo.orders": text(4)})


@pytest.mark.parametrize("change", ["start_lsn = ?", "start_lsn = ?, object_id = 23"])
def test_an_instance_that_begins_while_its_table_is_read(captured: Memory, change: str) -> None:
    """Rows from the older instance lack columns of the newer one. The next try reads both instances."""
    if "object_id" not in change:
        captured.session.execute("UPDATE cdc.change_tables SET start_lsn = NULL WHERE object_id = 21")
    reader = cdc(captured)
    start, end = reader.bounds(hour(11), {"dbo.orders": text(4)})
    read(reader, captured, start, end, "id")
    captured.session.execute(f"UPDATE cdc.change_tables SET {change} WHERE object_id = 21", [lsn(6)])
    with pytest.raises(SourceUnavailable, match="dbo_orders_2 began to capture") as raised:
        reader.check({"dbo.orders": text(4)})
    assert raised.value.retryable
    # An instance that begins after the rows that were read changes nothing.
    captured.session.execute(f"UPDATE cdc.change_tables SET {change} WHERE object_id >= 21", [lsn(7)])
    reader.check({"dbo.orders": text(4)})


@pytest.mark.parametrize(
    ("change", "now"),
    [
        ("UPDATE sys.tables SET name = 'orders_2026'", "dbo.orders_2026"),
        ("INSERT INTO sys.schemas VALUES (2, 'sales'); UPDATE sys.tables SET schema_id = 2", "sales.orders"),
        # The table was renamed, and a new table got the old name.
        (
            "UPDATE sys.tables SET name = 'orders_old'; INSERT INTO sys.tables VALUES (30, 'orders', 1)",
            "dbo.orders_old",
        ),
    ],
)
def test_a_table_that_was_renamed(captured: Memory, change: str, now: str) -> None:
    """An instance keeps its name, and identifies its table by id."""
    captured.session.executescript(change)
    with pytest.raises(ConfigError, match=f"dbo_orders captures {now}: was the table renamed") as raised:
        cdc(captured)
    assert f"name {now} in the feed" in raised.value.remedy
    assert [reported.table for reported in cdc(captured, now).tables] == [now, now]


def test_a_table_with_a_dot_in_its_name(captured: Memory) -> None:
    """The first dot ends the schema. A schema name with a dot is another schema, which no feed can name."""
    captured.session.executescript("""
        UPDATE sys.tables SET name = 'order.lines';
        INSERT INTO sys.schemas VALUES (2, 'dbo.order');
        INSERT INTO sys.tables VALUES (11, 'lines', 2);
        UPDATE cdc.change_tables SET source_object_id = 11 WHERE object_id = 21;
    """)
    reader = cdc(captured, "dbo.order.lines")
    assert [(t.table, t.instance) for t in reader.tables] == [("dbo.order.lines", "dbo_orders")]
    dotted = feed("sqlserver_cdc", tables=[{"table": "dbo.order.lines"}], source={})
    assert dotted.names["dbo.order.lines"].current == "lake.f.dbo_order_lines"


def test_a_qlik_table_with_a_dot_in_its_name() -> None:
    memory = Memory(
        QLIK.replace("dbo.orders__ct", 'dbo."order.lines__ct"').replace("orders__ct", "order.lines__ct")
    )
    (reported,) = qlik(memory, "dbo.order.lines").tables
    assert (reported.table, reported.instance) == ("dbo.order.lines", "dbo.order.lines__ct")


def test_a_table_that_may_not_be_seen(captured: Memory) -> None:
    captured.session.execute("DELETE FROM sys.tables")
    with pytest.raises(
        ConfigError, match="cannot see which table the capture instance dbo_orders captures"
    ) as raised:
        cdc(captured)
    assert "VIEW DEFINITION" in raised.value.remedy


def test_a_name_that_was_given_to_another_captured_table(captured: Memory) -> None:
    """Both tables have long been captured: not LSNs, but the table's id tells them apart."""
    before = cdc(captured).landmarks({"dbo.orders": text(5)})
    captured.session.executescript("""
        UPDATE sys.tables SET name = 'orders_old';
        INSERT INTO sys.tables VALUES (30, 'orders', 1);
        UPDATE cdc.change_tables SET source_object_id = 30 WHERE object_id = 20;
    """)
    after = cdc(captured).landmarks({"dbo.orders": text(5)})
    assert (before["dbo.orders"][-11:], after["dbo.orders"][-11:]) == ("(object 10)", "(object 30)")


def test_of_captured_tables_that_differ_in_case_the_very_one_is_read(captured: Memory) -> None:
    """Instances of the two tables are not two instances of one table."""
    captured.session.executescript("""
        INSERT INTO sys.tables VALUES (30, 'Orders', 1);
        CREATE TABLE cdc.upper_CT ("__$start_lsn", "__$operation", id);
        INSERT INTO cdc.captured_columns VALUES (22, 'id', 1, 'int', 1, 0);
        INSERT INTO cdc.index_columns VALUES (22, 'id', 1);
        INSERT INTO cdc.change_tables VALUES (22, 30, 'upper', x'00000000000000000002', '2026-08-07');
    """)
    for name, instances in (("dbo.orders", ["dbo_orders", "dbo_orders_2"]), ("dbo.Orders", ["upper"])):
        assert [table.instance for table in cdc(captured, name).tables] == instances
    with pytest.raises(ConfigError, match=r"DBO.orders may be one of several tables") as raised:
        cdc(captured, "DBO.orders")
    assert "dbo.Orders (upper), dbo.orders (dbo_orders), dbo.orders (dbo_orders_2)" in raised.value.message


def test_the_only_captured_table_is_read_in_whatever_case(captured: Memory) -> None:
    assert [(table.table, table.instance) for table in cdc(captured, "DBO.Orders").tables] == [
        ("DBO.Orders", "dbo_orders"),
        ("DBO.Orders", "dbo_orders_2"),
    ]


def test_a_key_that_the_capture_does_not_have(captured: Memory) -> None:
    keyed = {"table": "dbo.orders", "key": ["id", "region"]}
    wrong = feed("sqlserver_cdc", tables=[keyed], source={})
    with pytest.raises(ContractError, match=r"the key of dbo\.orders has region"):
        CaptureTables(wrong, captured)
