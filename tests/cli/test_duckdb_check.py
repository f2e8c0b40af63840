"""`changeledger query` lets DuckDB read the lake and compute, and refuses everything else."""

from __future__ import annotations

from contextlib import nullcontext

import duckdb
import pytest

from changeledger.cli.duckdb_sql.addresses import Address
from changeledger.cli.duckdb_sql.check import checked
from changeledger.cli.duckdb_sql.engine import connected
from changeledger.model.errors import ConfigError
from tests.cli.called import called
from tests.cli.test_statement import documented

T = "lake.shop_cdc.dbo_customers"
MAIN = Address("shop_cdc", "dbo_customers")
QUERIES = [
    f"SELECT * FROM {T}",
    f"  select id from {T} ;\n;",
    f"FROM {T}",
    f"TABLE {T}",
    f"DESCRIBE {T}",
    f"desc {T}",
    f"SUMMARIZE {T}",
    f"DESCRIBE SELECT a.id FROM {T} a",
    'SELECT "two words", `a b` FROM `lake`."shop_cdc".`dbo_customers` -- FROM read_csv(\'/x\')',
    "SELECT /* one /* two */ */ LAKE.Shop_CDC.DBO_Customers.id FROM LAKE.Shop_CDC.DBO_Customers",
    f"WITH x(a, b) AS (SELECT id, 1 FROM {T}), y AS (SELECT a FROM X) SELECT y.a FROM x JOIN y USING (a)",
    f"WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 9) SELECT i FROM n, {T}",
    f"SELECT count(*) FILTER (WHERE id > 1), row_number() OVER (PARTITION BY id ORDER BY id ROWS BETWEEN "
    f"UNBOUNDED PRECEDING AND CURRENT ROW) FROM {T} WINDOW w AS (ORDER BY id) QUALIFY rank() OVER w = 1",
    f"SELECT id FROM {T} GROUP BY GROUPING SETS ((id), ()) HAVING count(DISTINCT id) > grouping(id)",
    f"SELECT * EXCLUDE (id) REPLACE (upper(name) AS name), COLUMNS('a.*') FROM {T} GROUP BY ALL ORDER BY ALL",
    f"SELECT [x + 1 for x in [1, 2] if x > 1], list_transform([1], lambda x: x + 1), {{'a': 1}}.a FROM {T}",
    f"SELECT map {{'a': 1}}['a'], '1'::int, 1.5::decimal(9, 2), try_cast('x' AS int), ifnull(id, 1) FROM {T}",
    f"SELECT CASE id WHEN 1 THEN 1 END, coalesce(id, 0), id IN (1, 2), id BETWEEN 1 AND 2, -id, NOT true, "
    f"name LIKE 'a%' ESCAPE '!', name ILIKE 'b', name SIMILAR TO 'c', name ~ 'd', 'a' || 'b', id IS NULL "
    f"FROM {T}",
    f"SELECT extract(year FROM now()), date_trunc('day', now()) - INTERVAL 1 DAY, now() AT TIME ZONE 'UTC' "
    f"FROM {T}",
    f"SELECT id FROM {T} WHERE EXISTS (SELECT 1 FROM {T} b WHERE b.id = id) AND id = ANY (SELECT 1) "
    "LIMIT 10%",
    f"SELECT id FROM {T} UNION BY NAME SELECT id FROM {T} EXCEPT SELECT 1 LIMIT 2 OFFSET 1",
    f"SELECT * FROM {T} a ASOF JOIN {T} b ON a.id >= b.id POSITIONAL JOIN {T} c",
    f"SELECT * FROM {T} TABLESAMPLE 10%",
    f"SELECT DATE '2026-01-01', TIMESTAMPTZ '2026-01-01 00:00:00+01', {{'a': 1}}::STRUCT(a INT), "
    f"[1]::INT[1], 'a'::ENUM('a'), 5::DECIMAL(10, 2), X'00', 1e10, 1234567890123456789012345, NULL, true, "
    f"MAP {{1: 2}}, 'x'::UUID, (1, 2), INTERVAL '1 day' FROM {T} USING SAMPLE reservoir(5 ROWS)",
    f"SELECT t.* LIKE 'a%', name.upper().lower(), id::text FROM {T} t ORDER BY id DESC NULLS LAST",
    f"SELECT * FROM (PIVOT {T} ON name IN ('a', 'b') USING sum(id))",
    f"SELECT * FROM (UNPIVOT {T} ON id, name)",
    f"SELECT unnest(tags), t.x FROM {T}, unnest([1, 2]) t(x), range(3), "
    "generate_series(1, 2), json_each('[]')",
    f"SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY id), string_agg(name, ',' ORDER BY id) FROM {T}",
    f"SELECT * FROM {T}, LATERAL (SELECT id + 1)",
    f"SELECT $$it's$$, E'\\'', 'it''s', name COLLATE nocase FROM {T}",
]  # fmt: skip
WITHOUT_TABLES = ["SELECT 1 AS a", "VALUES (1), (2)", "(SELECT 1) UNION ALL (SELECT 2)", "FROM range(3)"]
STATES = {
    f"SELECT * FROM {T}.branch_run_2020_7": Address(*MAIN[:2], "branch", "run_2020_7"),
    f"SELECT * FROM {T}.`tag_Release 1` t": Address(*MAIN[:2], "tag", "Release 1"),
    f"SELECT * FROM {T} VERSION AS OF 'release_12' AS c": Address(*MAIN[:2], "version", "release_12"),
    f"SELECT * FROM {T} FOR SYSTEM_VERSION AS OF 12": Address(*MAIN[:2], "version", "12"),
    f"SELECT * FROM {T} AT (VERSION => 'it''s')": Address(*MAIN[:2], "version", "it's"),
    f"SELECT * FROM {T} /* x */ TIMESTAMP AS OF '2026-01-01'": Address(*MAIN[:2], "timestamp", "2026-01-01"),
    f"SELECT * FROM {T} AT (TIMESTAMP => TIMESTAMP '2026-01-01')": Address(
        *MAIN[:2], "timestamp", "2026-01-01"
    ),
    f"SELECT * FROM {T}.SNAPSHOTS WHERE 'ä' = 'ö'": Address(*MAIN[:2], "metadata", "snapshots"),
}
FILES = [
    "SELECT * FROM '/etc/hostname'",
    'SELECT * FROM "/etc/hostname"',
    "FROM read_csv('/etc/hostname')",
    "SELECT * FROM read_text('/etc/hostname')",
    "SELECT * FROM read_parquet(['/x.parquet'])",
    "SELECT * FROM glob('/etc/*')",
    "SELECT * FROM sniff_csv('/etc/hostname')",
    "SELECT * FROM parquet_metadata('/x')",
    "SELECT * FROM {t}, read_blob('/etc/hostname')",
    "SELECT (SELECT max(content) FROM read_text('/etc/hostname'))",
    "SELECT 1 WHERE EXISTS (FROM read_text('/etc/hostname'))",
    "WITH a AS (FROM read_text('/etc/hostname')) SELECT * FROM a",
    "SELECT * FROM range((SELECT length(content) FROM read_text('/etc/hostname')))",
    "FROM query('FROM read_text(''/etc/hostname'')')",
    "FROM query_table('{t}')",
    "DESCRIBE FROM read_csv('/etc/hostname')",
    "SELECT * FROM (PIVOT read_csv('/x') ON a IN (1) USING sum(b))",
    "COPY (SELECT 1) TO '/x'",
    "COPY x FROM '/x'",
    "EXPORT DATABASE '/x'",
    "ATTACH '/x' AS y",
]
# A file is read in every place where a query can stand.
FILES += [
    sql.replace("{x}", "(SELECT max(length(content)) FROM read_text('/x'))")
    for sql in (
        "SELECT 1 LIMIT {x}", "SELECT 1 LIMIT 1 OFFSET {x}", "SELECT 1 LIMIT {x} %", "VALUES ({x})",
        "SELECT 1 ORDER BY {x}", "FROM {t} GROUP BY {x}", "FROM {t} GROUP BY GROUPING SETS (({x}), ())",
        "FROM {t} a JOIN {t} b ON {x} = 1", "FROM {t} HAVING {x} = 1", "SELECT DISTINCT ON ({x}) 1",
        "SELECT sum(1) FILTER ({x} = 1)", "SELECT string_agg('a', ORDER BY {x})", "SELECT [1][{x}:2]",
        "SELECT sum(1) OVER (PARTITION BY {x})", "SELECT sum(1) OVER (ROWS {x} PRECEDING)",
        "SELECT lag(1, {x}, {x}) OVER ()", "SELECT CASE WHEN true THEN {x} END",
        "SELECT * REPLACE ({x} AS id) FROM {t}",
        "SELECT lower('a').replace('b', {x}::text)", "SELECT list_filter([1], lambda y: y = {x})",
        "SELECT [y for y in [1] if y = {x}]", "SELECT INTERVAL ({x}) DAY",
        "SELECT COLUMNS(y -> y = {x}) FROM {t}",
        "SUMMARIZE SELECT {x}",
        "FROM (PIVOT {t} ON name IN (SELECT content FROM read_text('/x')) USING sum(id))",
        "FROM (PIVOT {t} ON name IN ('a') USING sum({x}))", "FROM {t} QUALIFY {x} = 1",
        "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < {x}) FROM n",
        "FROM (FROM {t} UNION ALL (WITH y AS (SELECT {x}) FROM y))", "SELECT {'a': {x}}, MAP {1: {x}}",
    )
]  # fmt: skip
ENGINE = [
    "FROM duckdb_settings()",
    "FROM duckdb_secrets()",
    "FROM json_execute_serialized_sql('x')",
    "FROM create_external_resource('x')",
    "FROM arrow_scan(1, 2, 3)",
    "SELECT current_setting('memory_limit')",
    "SELECT getvariable('x')",
    "SELECT json_serialize_plan('FROM read_csv(''/x'')')",
    "SELECT write_log('x')",
    "SELECT sleep_ms(1)",
    "SELECT PG_SLEEP(1)",
    "SELECT nextval('x')",
    "SELECT version()",
    "SELECT system.main.version()",
    "SELECT list_transform([1], lambda x: write_log('x'))",
    "SELECT id FROM {t} QUALIFY row_number() OVER (ORDER BY setseed(0.1)) = 1",
    "SELECT not_a_function(1)",
]
TABLES_OF_OTHERS = [
    "SELECT * FROM x",
    "SELECT * FROM a.b",
    "FROM duckdb_tables",
    "FROM sqlite_master",
    "FROM information_schema.tables",
    "FROM pg_catalog.pg_settings",
    "FROM temp.main.lake_0",
    "FROM memory.main.x",
    "FROM lake.x",
    "FROM {t}.unknown",
    "FROM {t}.branch_x.y",
    "SELECT * FROM (WITH y AS (SELECT 1) SELECT * FROM y) a, {t}.z",
    "SELECT 1 UNION ALL FROM system.main.duckdb_views",
]
STATEMENTS = [
    "DROP TABLE {t}",
    "/* SHOW */ DROP TABLE {t}",
    "INSERT INTO {t} VALUES (1)",
    "WITH new AS (SELECT 3 AS id) INSERT INTO {t} SELECT id FROM new",
    "WITH new AS (INSERT INTO {t} VALUES (1) RETURNING id) SELECT * FROM new",
    "WITH new AS (DELETE FROM {t} RETURNING id) SELECT * FROM new",
    "UPDATE {t} SET id = 1",
    "DELETE FROM {t}",
    "MERGE INTO {t} USING {t} b ON true WHEN MATCHED THEN DELETE",
    "CREATE TABLE lake.a.b AS SELECT 1",
    "CREATE MACRO f(x) AS x",
    "ALTER TABLE {t} RENAME TO x",
    "SELECT 1; SELECT 2",
    "SELECT 1; DROP TABLE {t}",
    "INSTALL httpfs",
    "LOAD httpfs",
    "LOAD '/x.duckdb_extension'",
    "SET memory_limit = '1TB'",
    "RESET memory_limit",
    "PRAGMA database_list",
    "CALL pragma_version()",
    "EXECUTE x",
    "PREPARE x AS SELECT 1",
    "USE lake",
    "CHECKPOINT",
    "EXPLAIN SELECT 1",
    "EXPLAIN ANALYZE SELECT 1",
    "PIVOT {t} ON name USING sum(id)",
    "SHOW TABLES",
    "SHOW ALL TABLES",
    "SHOW DATABASES",
    "SHOW TABLES FROM lake.shop_cdc",
    "",
    " ; ",
    "-- nothing",
]
UNREADABLE = [
    "SELECT 'a",
    "SELECT (1",
    "SELECT 1)",
    "SELECT ?",
    "SELECT $x",
    "SELECT $1",
    "SELECT 1 2 3",
    "SELECT '\udcff'",
    "SELECT * FROM {t} AT (VERSION => 'a' || 'b')",
    "SELECT " + "(" * 3000 + "1" + ")" * 3000,
    "SELECT " + "[" * 900 + "1" + "]" * 900,
]


@pytest.fixture(scope="module")
def connection() -> duckdb.DuckDBPyConnection:
    return connected()


@pytest.mark.parametrize("sql", QUERIES)
def test_what_reads_and_computes_runs(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    assert checked(connection, sql).tables == {("shop_cdc", "dbo_customers"): MAIN}


@pytest.mark.parametrize("sql", WITHOUT_TABLES)
def test_a_query_needs_no_table(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    assert checked(connection, sql).tables == {}


@pytest.mark.parametrize(("sql", "address"), STATES.items())
def test_a_table_has_states(connection: duckdb.DuckDBPyConnection, sql: str, address: Address) -> None:
    query = checked(connection, sql)
    assert query.tables == {("shop_cdc 1", "dbo_customers"): address}
    assert 'lake."shop_cdc 1"."dbo_customers"' in query.text


def test_each_state_is_a_table_of_its_own(connection: duckdb.DuckDBPyConnection) -> None:
    states = f"{T} VERSION AS OF 'x' b, {T} VERSION AS OF 'x' c, {T} VERSION AS OF 'X' d, {T}.tag_x e"
    query = checked(connection, f"SELECT 1 FROM {T} a, {states}")
    assert {address[2:] for address in query.tables.values()} == {
        ("", ""), ("version", "x"), ("version", "X"), ("tag", "x")
    }  # fmt: skip
    assert len(query.tables) == 4


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        *((sql, r"is not among the functions|is not a table of the lake|does not run") for sql in FILES),
        *((sql, r"is not among the functions") for sql in ENGINE),
        *((sql, r"is not a table of the lake") for sql in TABLES_OF_OTHERS),
        *((sql, r"`query` does not run|has a part that") for sql in STATEMENTS),
        *((sql, r"cannot be (read|checked)|has a part that|has neither a plain") for sql in UNREADABLE),
    ],
)
def test_everything_else_is_refused(connection: duckdb.DuckDBPyConnection, sql: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        checked(connection, sql.replace("{t}", T))


def test_the_refusal_names_what_it_refuses(connection: duckdb.DuckDBPyConnection) -> None:
    for sql, name in (
        ("SELECT upper(Version())", r"(?i)^version is not among the functions that `query` runs\n"),
        ("FROM '/etc/hostname'", r"^/etc/hostname is not a table of the lake\n"),
        ("FROM read_csv('/x')", r"^read_csv is not among the functions that `query` runs\n"),
        ("DROP TABLE x", r"^`query` does not run DROP TABLE x\n  Remedy: `query` changes nothing"),
        (f"SELECT id FROM {T} WHERE id = ?", r"^it has a part that `query` does not run: parameter"),
        (f"SELECT id FROM {T} LIMT 1, 2", r"^the statement cannot be read: .* near .*\n\nLINE 1: "),
    ):
        with pytest.raises(ConfigError, match=name):
            checked(connection, sql)


@pytest.mark.parametrize(
    ("value", "is_refused"),
    [
        ("TIMESTAMP '2026-01-31 12:00:00+01:00'", True),
        ("'2026-01-31T12:00-0130'::DATETIME", True),
        ("TRY_CAST('2026-01-31 12:00:00.5 Europe/Berlin' AS timestamp_ns)", True),
        ("TIMESTAMPTZ '2026-01-31 12:00:00+01:00'", False),
        ("TIMESTAMP '2026-01-31 12:00:00.123456'", False),
        ("TIMESTAMP '2026-01-31'", False),
        # The form in which `query` prints timestamps with time zone.
        ("TIMESTAMP '2026-01-31 12:00:00+00:00'", False),
        ("'2026-01-31T12:00:00Z'::TIMESTAMP", False),
        ("'2026-01-31 12:00:00+01:00'::VARCHAR", False),
    ],
)
def test_no_offset_is_left_out(
    connection: duckdb.DuckDBPyConnection, value: str, *, is_refused: bool
) -> None:
    refused = pytest.raises(ConfigError, match=r"would ignore that of .*: write TIMESTAMPTZ")
    with refused if is_refused else nullcontext():
        checked(connection, f"SELECT id FROM {T} WHERE created < {value}")


@pytest.mark.parametrize(
    "sql", [f"SELECT table FROM {T}", f"EXPLAIN SELECT id FROM {T}", "SELECT date_format(now(), 'y')",
            f"SELECT id FROM {T} LATERAL VIEW explode(flags) f AS flag", f"SHOW CREATE TABLE {T}"]
)  # fmt: skip
def test_what_only_spark_reads_is_sent_there(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    with pytest.raises(ConfigError, match=r"Remedy: run it with --spark"):
        checked(connection, sql)


def test_what_the_documentation_asks_is_answered(connection: duckdb.DuckDBPyConnection) -> None:
    statements = list(documented())
    assert len(statements) > 3
    for statement in statements:
        assert checked(connection, statement).tables


def test_nothing_can_be_unlocked(connection: duckdb.DuckDBPyConnection) -> None:
    """The connection is locked, in case a statement passes the check after all."""
    for sql in (
        "SET enable_external_access = true", "FROM read_text('/etc/hostname')", "COPY (SELECT 1) TO '/tmp/x'",
        "FROM '/etc/hostname'", "ATTACH '/tmp/x.db'", "LOAD httpfs", "INSTALL httpfs", "FROM connection",
        "SET temp_directory = '/tmp'", "EXPORT DATABASE '/tmp/x'", "FROM glob('/etc/*')",
    ):  # fmt: skip
        with pytest.raises(duckdb.Error):
            connection.execute(sql)


def test_the_command_refuses_before_anything_is_opened(capsys: pytest.CaptureFixture[str]) -> None:
    ended = called(capsys, "query", "FROM read_csv('/etc/hostname')")
    assert (ended.stdout, ended.returncode) == ("", 1)
    assert "read_csv is not among the functions" in ended.stderr
