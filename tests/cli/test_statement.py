"""`changeledger query --spark` runs statements that read the lake and compute; it refuses others by name."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from changeledger.config.settings import PROJECT
from changeledger.model.errors import ConfigError
from changeledger.read_only_sql.check import checked
from changeledger.read_only_sql.functions import COMPUTING
from tests.cli.called import called

T = "lake.shop_cdc.dbo_customers"
QUERIES = [
    f"SELECT * FROM {T} VERSION AS OF 'release_12'",
    f"SELECT * FROM {T} TIMESTAMP AS OF '2026-01-01'",
    f"SELECT * FROM {T}.snapshots",
    "SELECT * FROM `lake`.shop_cdc.`dbo_customers`.`refs` -- text.`/etc/hostname`",
    # A column named `table`, not the statement TABLE.
    "SELECT table, reason FROM lake.shop_cdc.quarantine",
    f"FROM {T} SELECT id",
    f"WITH x(a, b) AS (SELECT id, 1 FROM {T}), y AS (SELECT a FROM X) SELECT y.a FROM x JOIN y USING (a)",
    f"SELECT (WITH x AS (SELECT 1 AS a) SELECT max(a) FROM x) FROM {T}",
    f"SELECT count(*) FILTER (WHERE id > 1), row_number() OVER (PARTITION BY id ORDER BY id ROWS BETWEEN "
    f"UNBOUNDED PRECEDING AND CURRENT ROW) FROM {T}",
    f"SELECT id FROM {T} GROUP BY GROUPING SETS ((id), ()) HAVING count(DISTINCT id) > 1",
    f"SELECT flag, count(*) FROM {T}_changes LATERAL VIEW OUTER explode(flags) f AS flag GROUP BY ALL",
    "SELECT transform(array(1), x -> x + 1), aggregate(array(1), 0, (x, y) -> x + y), map('a', 1)['a']",
    "SELECT CAST('1' AS DECIMAL(10, 2)), '1'::int, date '2020-01-01', 10L, 1e5, CASE 1 WHEN 1 THEN 1 END",
    f"SELECT * EXCEPT (id) FROM {T} WHERE id IN (SELECT id FROM {T}) AND name LIKE ANY ('a%', 'b')",
    r"SELECT 'it''s', 'a\'b', r'\d+', " + '"reflect(1)", `reflect(1)` FROM ' + T,
    f"SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY id), extract(YEAR FROM now()), trim(BOTH 'a' "
    f"FROM 'b') FROM {T} AS c(id, name)",
    f"SELECT * FROM {T} PIVOT (sum(id) FOR name IN ('a', 'b'))",
    f"SELECT * FROM {T} TABLESAMPLE (10 PERCENT) WHERE at > current_timestamp() - INTERVAL '1' DAY",
    "SELECT a FROM (SELECT 1 AS a), LATERAL (SELECT a + 1)",
    "SELECT * FROM VALUES (1, 'a') AS t(id, name)",
    "VALUES (1), (2)",
    "SELECT 1) UNION ALL (SELECT 2",
    "SELECT 1 -- \\\n, reflect('java.lang.System', 'getenv', 'HOME')",
    "SELECT /* one /* two */ */ 1;\n;",
    f"EXPLAIN FORMATTED SELECT * FROM {T}",
    "DESCRIBE QUERY SELECT 1",
]  # fmt: skip
OTHERS = [
    f"TABLE {T}",
    "SHOW CATALOGS",
    "SHOW NAMESPACES IN lake",
    "SHOW TABLES IN lake.shop_cdc LIKE 'dbo*'",
    f"SHOW COLUMNS IN {T}",
    f"SHOW CREATE TABLE {T}",
    f"show tblproperties {T} ('format-version')",
    f"DESCRIBE TABLE EXTENDED {T}",
    f"DESC {T} `two words`.id",
    "DESC NAMESPACE lake.shop_cdc",
]

PROGRAMS = [
    "SELECT TRANSFORM(1) USING 'touch {x}'",
    'SELECT TRANSFORM(id) USING "touch {x}" AS (a) FROM {t}',
    "SELECT TRANSFORM(id) ROW FORMAT DELIMITED FIELDS TERMINATED BY ',' USING 'touch {x}' FROM {t}",
    "FROM {t} MAP id USING 'touch {x}'",
    "FROM {t} REDUCE id USING 'touch {x}' AS a",
    "SELECT * FROM (FROM {t} MAP id USING 'touch {x}') a",
    "WITH a AS (SELECT TRANSFORM(1) USING 'touch {x}') SELECT * FROM a",
    "EXPLAIN SELECT TRANSFORM(1) USING 'touch {x}'",
]
FUNCTIONS = [
    "SELECT reflect('java.lang.System', 'getenv', 'HOME')",
    "SELECT JAVA_METHOD ('java.lang.System', 'getenv', 'HOME')",
    "SELECT try_reflect('java.lang.System', 'getenv', 'HOME')",
    "SELECT `reflect`('a', 'b')",
    "SELECT `reflect` /* */ ('a', 'b')",
    "SELECT reflect--\n('a', 'b')",
    "SELECT \"reflect\"('a', 'b')",
    # sqlglot ends the comment before the line's end, and so hides what follows.
    "SELECT 1 -- \\\n/*\n, reflect('java.lang.System', 'getenv', 'HOME')\n-- */",
    "SELECT filter(array(1), x -> reflect('a', 'b') IS NULL)",
    "SELECT id FROM {t} QUALIFY reflect('a', 'b') = 1",
    "SELECT 1 FROM {t} AS reflect(a) WHERE reflect('a', 'b') = 1",
    "SELECT 1 FROM {t} LATERAL VIEW reflect('a', 'b') x",
    "EXPLAIN SELECT reflect('a', 'b')",
    "SELECT IDENTIFIER('reflect')('a', 'b')",
    "SELECT system.builtin.reflect('a', 'b')",
    "SELECT lake.system.bucket(4, id) FROM {t}",
    "SELECT spark_catalog.default.f(id) FROM {t}",
    "SELECT input_file_name() FROM {t}",
    "SELECT from_xml('<a/>', 'a INT', map('rowValidationXSDPath', '/etc/hostname'))",
    "SELECT from_protobuf(raw, 'a', '/etc/hostname') FROM {t}",
    "SELECT current_catalog(), not_a_function(1)",
]
TABLES = [
    "SELECT * FROM text.`/etc/hostname`",
    "SELECT * FROM `text`.`/etc/hostname`",
    "SELECT * FROM parquet.`/x`",
    "SELECT * FROM csv.x",
    "SELECT * FROM iceberg.`/x`",
    "SELECT * FROM json.`http://127.0.0.1/x`",
    "SELECT * FROM {t}, text.`/etc/hostname`",
    "SELECT (SELECT max(value) FROM text.`/etc/hostname`)",
    "SELECT 1 WHERE EXISTS (SELECT * FROM text.`/etc/hostname`)",
    "SELECT 1 IN (SELECT value FROM text.`/etc/hostname`)",
    "SELECT * FROM (text.`/etc/hostname`)",
    "SELECT 1 UNION ALL SELECT value FROM text.`/etc/hostname`",
    "SELECT * FROM {t} LEFT JOIN LATERAL (SELECT * FROM text.`/etc/hostname`)",
    "WITH text AS (SELECT 1) SELECT * FROM text.`/etc/hostname`",
    "FROM text.`/etc/hostname`",
    "TABLE text.`/etc/hostname`",
    "(TABLE text.`/etc/hostname`)",
    "SELECT * FROM (TABLE text.`/etc/hostname`)",
    "SELECT 1 UNION TABLE text.`/etc/hostname`",
    "WITH a AS (SELECT 1) TABLE text.`/etc/hostname`",
    "WITH table AS (SELECT 1) SELECT * FROM (TABLE text)",
    "WITH stream AS (SELECT 1) SELECT * FROM STREAM text",
    "DESCRIBE text.`/etc/hostname`",
    "DESCRIBE QUERY SELECT * FROM text.`/etc/hostname`",
    "EXPLAIN SELECT * FROM text.`/etc/hostname`",
    "SHOW CREATE TABLE text.`/etc/hostname`",
    "SHOW TABLES IN spark_catalog.default",
    "SELECT * FROM {t} VERSION AS OF (SELECT value FROM text.`/etc/hostname`)",
    'SELECT * FROM "text"."/etc/hostname"',
    "SELECT * FROM IDENTIFIER('text.`/etc/hostname`')",
    "SELECT * FROM read_files('/etc/hostname')",
    "SELECT * FROM {t}, LATERAL read_files('/etc/hostname')",
    "SELECT * FROM f(TABLE(text.`/etc/hostname`))",
    "SELECT * FROM explode(array(1))",
    "SELECT * FROM spark_catalog.default.x",
    "SELECT * FROM global_temp.x",
    "SELECT * FROM LAKE.shop_cdc.dbo_customers",
    "SELECT * FROM x",
    # `y` is defined by a later WITH entry, or in another query's WITH.
    "WITH x AS (SELECT * FROM y), y AS (SELECT 1) SELECT * FROM x",
    "SELECT * FROM (WITH y AS (SELECT 1) SELECT * FROM y) a, y",
    "WITH x AS (SELECT * FROM x) SELECT * FROM x",
]
STATEMENTS = [
    "DROP TABLE {t}",
    "-- \\\nSHOW TABLES IN lake\nDROP TABLE {t}",
    "/* SHOW */ DROP TABLE {t}",
    "WITH some AS (SELECT 3 AS id) INSERT INTO {t} SELECT id FROM some",
    "FROM {t} INSERT INTO {t} SELECT id",
    "INSERT OVERWRITE DIRECTORY '/x' SELECT 1",
    "SELECT * INTO x FROM {t}",
    "CREATE TABLE lake.a.b AS SELECT 1",
    "SELECT 1; DROP TABLE {t}",
    "SHOW TABLES IN lake; DROP TABLE {t}",
    "SELECT 1); DROP TABLE {t}; (SELECT 1",
    "BEGIN DROP TABLE {t}; END",
    "DECLARE x INT",
    "EXECUTE IMMEDIATE 'DROP TABLE {t}'",
    "EXPLAIN DROP TABLE {t}",
    "EXPLAIN EXPLAIN SELECT 1",
    "CALL lake.system.expire_snapshots(table => '{t}', retain_last => 1)",
    "ALTER TABLE {t} CREATE BRANCH b",
    "TRUNCATE TABLE {t}",
    "MERGE INTO {t} USING {t} ON true WHEN MATCHED THEN DELETE",
    "SET spark.sql.ansi.enabled=false",
    "RESET",
    "USE lake",
    "CLEAR CACHE",
    "CACHE TABLE {t}",
    "REFRESH TABLE {t}",
    "ADD JAR '/x'",
    "LIST FILES",
    "LOAD DATA INPATH '/x' INTO TABLE {t}",
    "CREATE TEMPORARY FUNCTION upper AS 'x' USING JAR '/x'",
    "SHOW FUNCTIONS",
    "",
    " ; ",
]
UNREADABLE = [
    "SELECT /*+ BROADCAST(c) */ * FROM {t} c",
    "FROM {t} |> SELECT 1",
    "SELECT 1 /* /* */",
    "SELECT 'a",
    r"SELECT r'\' , reflect('a', 'b'), '\'",
    "SELECT `a",
    "SELECT (1",
    "SELECT 1)",
    "SELECT :x",
    "SELECT ?",
    "SELECT ${{x}}",
    "SELECT $$a$$",
    "SELECT {{{{ x }}}}",
    "SELECT @x",
    "SELECT\u00a01",
    "SELECT * FROM {t} WITH (`split-size` = 1)",
    "SELECT " + "(" * 3000 + "1" + ")" * 3000,
]


@pytest.mark.parametrize("sql", QUERIES)
def test_a_query_runs_in_parentheses(sql: str) -> None:
    assert re.fullmatch(r"((EXPLAIN|DESCRIBE)( \w+)? )?\(.*\n\)", checked(sql).text, re.DOTALL)


@pytest.mark.parametrize("sql", OTHERS)
def test_what_shows_something_of_the_lake_runs(sql: str) -> None:
    assert checked(f"/* x */ {sql};").text.strip() == sql


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        *((sql, r"^USING .touch /x. would run a program") for sql in PROGRAMS),
        *((sql, r"is not among the functions|cannot be checked") for sql in FUNCTIONS),
        *((sql, r"is not a table|does not run|may not name|not among the func|be checked") for sql in TABLES),
        *((sql, r"`query` does not run|cannot be checked|has a part") for sql in STATEMENTS),
        *((sql, r"^the statement cannot be checked: |it has a part that") for sql in UNREADABLE),
    ],
)
def test_everything_else_is_refused(sql: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as refused:
        checked(sql.format(t=T, x="/x"))
    assert "Remedy: `query` changes nothing: it answers one SELECT" in str(refused.value)


def test_the_refusal_names_what_it_refuses() -> None:
    for sql, name in (
        ("SELECT upper(Reflect('a'))", r"^Reflect is not among the functions that `query` runs"),
        ("SELECT * FROM text.`/x`", r"^text.`/x` is not a table of the lake"),
        ("SELECT id FROM lake.a.b WHERE a b c", r"^the statement cannot be checked: .* near 'b'"),
        ("DROP TABLE x", r"^`query` does not run DROP TABLE x"),
    ):
        with pytest.raises(ConfigError, match=name):
            checked(sql)


def documented() -> Iterator[str]:
    for page in (PROJECT / "README.md", *sorted((PROJECT / "docs").glob("*.md"))):
        text = page.read_text("utf-8")
        for block in re.findall(r"^```sql\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            yield from (
                statement for statement in block.split(";") if re.match(r"\s*(SELECT|WITH)\b", statement)
            )
        yield from re.findall(r'changeledger query "(SELECT.*?)"', text)


def test_what_the_documentation_asks_is_answered() -> None:
    statements = list(documented())
    assert len(statements) > 3
    for statement in statements:
        checked(statement)


def test_the_command_refuses_before_anything_is_opened(capsys: pytest.CaptureFixture[str]) -> None:
    ended = called(capsys, "query", "--spark", "SELECT reflect('java.lang.System', 'getenv', 'HOME')")
    assert (ended.stdout, ended.returncode) == ("", 1)
    assert "reflect is not among the functions" in ended.stderr


def test_the_functions_are_sparks(spark: SparkSession) -> None:
    known = {row[0] for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect()}
    # These belong to Spark's grammar.
    assert COMPUTING - known == {"timestampadd", "timestampdiff", "try_cast"}
