"""`changeledger query` without Spark gives Spark's answers, and leaves to Spark what it may not answer."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from changeledger.cli import small_query
from changeledger.cli.statement.check import Statement, checked
from tests.cli.test_cli import ran

TABLE = "lake.small_query.rows"

# Spark's own answer is the expected one. Rows without ORDER BY come in any order.
ANSWERED = [
    "SELECT * FROM {t}",
    "SELECT * FROM {t} VERSION AS OF 'early'",
    "SELECT id, NAME, `two words` FROM {t} WHERE Id >= 2 AND name IS NOT NULL",
    "select name from {t} order by name",
    "select name from {t} order by name desc",
    "SELECT id, name, price FROM {t} ORDER BY flag DESC, price, id DESC LIMIT 4",
    "SELECT id FROM {t} ORDER BY name DESC NULLS FIRST, id",
    "SELECT name FROM {t} ORDER BY at, day, id LIMIT 0",
    "SELECT id AS number, name other FROM {t} WHERE name = 'b' OR name = '' OR id IN (5, -1)",
    "SELECT id FROM {t} WHERE name <> 'b'",
    "SELECT id FROM {t} WHERE (flag = true OR name IS NULL) AND id < 99999999999",
    "SELECT id FROM {t} WHERE id IN (1, 99999999999) AND name != 'its'",
    "SELECT count(*) FROM {t}",
    "SELECT COUNT(*) AS n FROM {t} WHERE name > 'a' -- a comment",
    "SELECT count(*) n FROM {t} VERSION AS OF 'early'",
    "SELECT count(*) FROM {t} LIMIT 0",
    "SELECT id FROM {t} WHERE early_only IS NULL;",
    "SELECT id, id FROM {t}",
]
IS_SPARKS = [
    "SELECT id FROM {t} WHERE id = '1'",
    "SELECT id FROM {t} WHERE name = 1",
    "SELECT id FROM {t} WHERE ratio > 1",
    "SELECT id FROM {t} WHERE price = 1",
    "SELECT id FROM {t} WHERE at > '2026-01-01'",
    "SELECT id FROM {t} WHERE name LIKE 'a%'",
    "SELECT id FROM {t} WHERE NOT name = 'b'",
    "SELECT id FROM {t} WHERE name NOT IN ('b')",
    "SELECT id FROM {t} WHERE name IN (SELECT 'b')",
    "SELECT id FROM {t} WHERE name = 'a\\nb'",
    "SELECT id FROM {t} WHERE name = id",
    "SELECT id FROM {t} WHERE name = 'it''s'",
    "SELECT id FROM {t} WHERE flag",
    "SELECT id FROM {t} WHERE name = NULL",
    "SELECT id FROM {t} ORDER BY ratio",
    "SELECT id FROM {t} ORDER BY 1",
    "SELECT -id FROM {t}",
    "SELECT name AS id FROM {t} ORDER BY id",
    "SELECT DISTINCT name FROM {t}",
    "SELECT * EXCEPT (id) FROM {t}",
    "SELECT key.id FROM {t}",
    "SELECT count(*), id FROM {t}",
    "SELECT count(DISTINCT id) FROM {t}",
    "SELECT count(*) FROM {t} GROUP BY name",
    "SELECT sum(id) FROM {t}",
    "SELECT missing FROM {t}",
    "SELECT id FROM {t} LIMIT 2 OFFSET 1",
    "(SELECT id FROM {t}) LIMIT 1",
    "SELECT id FROM {t} LIMIT 1 + 1",
    "SELECT id FROM {t} a",
    "SELECT id FROM {t}, {t}",
    "SELECT id FROM {t} VERSION AS OF 'late'",
    "SELECT id FROM {t} VERSION AS OF 7",
    "SELECT id FROM {t} TIMESTAMP AS OF '2026-01-01'",
    "SELECT id FROM {t}.snapshots",
    "SELECT id FROM {t}.branch_late",
    "SELECT id FROM {t} TABLESAMPLE (1 ROWS)",
    "SELECT id FROM lake.small_query.nothing",
    "SELECT id FROM (SELECT id FROM {t})",
    "SELECT id FROM {t} UNION ALL SELECT id FROM {t}",
    "WITH x AS (SELECT 1 AS id) SELECT id FROM {t}",
    "SELECT id FROM {t}; DROP TABLE {t}",
    "DROP TABLE {t}",
    "DELETE FROM {t}",
    "SHOW TABLES IN lake.small_query",
    "VALUES (1)",
    "SELECT 1",
    "SELECT (id FROM",
    "",
]


@pytest.fixture(scope="module")
def lake(spark: SparkSession) -> Iterator[SparkSession]:
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.small_query")
    columns = (
        "id INT, name STRING, `two words` BIGINT, flag BOOLEAN, at TIMESTAMP, wall TIMESTAMP_NTZ, day DATE, "
        "price DECIMAL(9,2), ratio DOUBLE, raw BINARY, early_only INT, key STRUCT<id: INT, at: TIMESTAMP>, "
        "tags ARRAY<STRING>, attributes MAP<STRING, INT>"
    )
    merge_on_read = "TBLPROPERTIES ('write.delete.mode'='merge-on-read')"
    spark.sql(f"CREATE OR REPLACE TABLE {TABLE} ({columns}) USING iceberg {merge_on_read}")
    some = (
        "TIMESTAMP '2026-03-29 01:30:00.000001', TIMESTAMP_NTZ '2026-03-29 02:30:00', DATE '2026-03-29', "
        "1.50, double('NaN'), X'00FF', 7, named_struct('id', 1, 'at', TIMESTAMP '2026-01-01 00:00:00'), "
        "array('x', NULL), map('a', 1)"
    )
    none = ", ".join(["NULL"] * 10)
    spark.sql(
        f"INSERT INTO {TABLE} VALUES (1, 'b', 10, true, {some}), (2, NULL, NULL, NULL, {none}), "
        f"(3, '', 30, false, {some}), (4, 'ä', 40, true, {none}), (5, 'b', 50, NULL, {some}), "
        f"(6, 'x', 1, true, {none})"
    )
    spark.sql(f"ALTER TABLE {TABLE} CREATE TAG early")
    spark.sql(f"ALTER TABLE {TABLE} ADD COLUMN later STRING")
    spark.sql(f"ALTER TABLE {TABLE} CREATE BRANCH late")
    spark.sql(f"DELETE FROM {TABLE} WHERE id = 6")
    yield spark
    spark.sql(f"DROP TABLE {TABLE}")


def comparable(cells: Any) -> str:
    if isinstance(cells, Row):
        cells = tuple(cells)
    return repr([cell.asDict(recursive=True) if isinstance(cell, Row) else cell for cell in cells]).replace(
        "bytearray(b'\\x00\\xff')", "b'\\x00\\xff'"
    )


@pytest.mark.parametrize("sql", ANSWERED)
def test_the_answer_is_sparks(lake: SparkSession, sql: str) -> None:
    asked = sql.format(t=TABLE)
    expected = lake.sql(asked.rstrip(";"))
    answer = small_query.answer(checked(asked))
    assert answer is not None, "it was left to Spark"
    assert answer.columns == expected.columns
    rows, others = ([comparable(row) for row in some] for some in (answer.rows, expected.collect()))
    if "order by" in sql.lower():
        assert rows == others
    else:
        assert sorted(rows) == sorted(others)
    assert rows or "LIMIT 0" in sql


@pytest.mark.parametrize("sql", IS_SPARKS)
def test_the_rest_is_sparks(lake: SparkSession, sql: str) -> None:
    assert small_query.answer(Statement(sql.format(t=TABLE))) is None


def test_many_rows_are_sparks(lake: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_query, "_MOST_ROWS", 5)
    assert small_query.answer(checked(f"SELECT id FROM {TABLE} WHERE name = 'b'")) is None


@pytest.mark.usefixtures("lake")
def test_a_small_query_needs_no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nonexistent")
    home = Path(os.environ["CHANGELEDGER_HOME"])
    ended = ran(home, "query", "--json", f"SELECT id, name FROM {TABLE} ORDER BY id LIMIT 2")
    assert (ended.stdout, ended.returncode) == ('{"id": 1, "name": "b"}\n{"id": 2, "name": null}\n', 0)
    assert ran(home, "query", "SELECT 1").returncode != 0, "or Java is there after all"
