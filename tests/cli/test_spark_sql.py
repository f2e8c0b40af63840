"""Spark answers a checked statement, and reports what it cannot read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from changeledger.cli import statement_tables as tables
from changeledger.cli.spark_sql import answer
from changeledger.model.errors import ConfigError
from changeledger.read_only_sql.check import Statement, checked

TABLE = "lake.querying.rows"


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> Iterator[SparkSession]:
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.querying")
    spark.sql(f"CREATE OR REPLACE TABLE {TABLE} (id INT) USING iceberg")
    spark.sql(f"INSERT INTO {TABLE} VALUES (2), (1)")
    yield spark
    spark.sql(f"DROP TABLE {TABLE}")


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT id FROM {TABLE} ORDER BY id",
        f"  select id from {TABLE} order by id ;\n",
        f"-- DROP TABLE {TABLE};\nSELECT id FROM {TABLE} ORDER BY id -- the end",
        f"/* DROP /* TABLE */ x */ SELECT id FROM {TABLE} ORDER BY id",
        f"SELECT id FROM {TABLE} ORDER BY id -- \\\n, reflect('a', 'b')",
        f"WITH some AS (SELECT id FROM {TABLE}) SELECT id FROM some ORDER BY id",
        f"FROM {TABLE} SELECT id ORDER BY id",
        "VALUES (1), (2)",
        "(SELECT 1) UNION ALL (SELECT 2)",
        "SELECT 1) UNION ALL (SELECT 2",
    ],
)
def test_a_query_is_answered(table: SparkSession, sql: str) -> None:
    assert [row[0] for row in answer(table, checked(sql)).rows] == [1, 2]


@pytest.mark.parametrize(
    ("sql", "shown"),
    [
        (f"TABLE {TABLE}", "1"),
        ("SHOW TABLES IN lake.querying", "rows"),
        (f"\n describe table {TABLE}", "int"),
        (f"desc {TABLE}", "int"),
        (f"DESCRIBE QUERY SELECT id FROM {TABLE}", "int"),
        (f"EXPLAIN SELECT * FROM {TABLE}", "Physical Plan"),
        (f"EXPLAIN FORMATTED SELECT * FROM {TABLE}", "Physical Plan"),
    ],
)
def test_what_is_there_is_shown(table: SparkSession, sql: str, shown: str) -> None:
    assert shown in str([*answer(table, checked(sql)).rows])


def test_what_spark_cannot_read_is_reported_as_spark_does(table: SparkSession) -> None:
    with pytest.raises(ConfigError, match=r"Syntax error at or near 'FROM'"):
        answer(table, Statement(f"(SELECT (id FROM {TABLE})"))


@pytest.mark.parametrize(
    ("sql", "error", "remedy"),
    [
        (f"SELECT 1 / (id - 1) FROM {TABLE}", "Division by zero", "correct the statement"),
        (f"SELECT CAST(concat('a', id) AS INT) FROM {TABLE}", "cannot be cast", "correct the statement"),
        (f"SELECT (SELECT id FROM {TABLE})", "More than one row", "correct the statement"),
        ("SELECT INTERVAL '1-2' YEAR TO MONTH", "cannot be shown", "AS STRING"),
    ],
)
def test_what_the_rows_do_not_allow_is_said(table: SparkSession, sql: str, error: str, remedy: str) -> None:
    with pytest.raises(ConfigError) as raised:
        list(answer(table, checked(sql)).rows)
    assert error in raised.value.message
    assert remedy in raised.value.remedy


@pytest.mark.parametrize(
    ("sql", "error", "remedy"),
    [
        (
            "SELECT * FROM lake.querying.row",
            "no table lake.querying.row",
            "did you mean `lake.querying.rows`?",
        ),
        (
            "SELECT 1 FROM lake.querying.rows, `lake`.querying.xyz",
            "no table lake.querying.xyz",
            "SHOW TABLES",
        ),
        ("DESCRIBE lake.queryin.rows", "nothing of lake.queryin is published yet", "`lake.querying.rows`?"),
        (
            "SELECT 1 FROM lake.no_feed.rows.files",
            "nothing of lake.no_feed is published yet",
            "changeledger status no_feed",
        ),
    ],
)
def test_a_table_that_is_not_there(table: SparkSession, sql: str, error: str, remedy: str) -> None:
    with pytest.raises(ConfigError) as raised:
        tables.require(tables.named(checked(sql)))
    assert error in raised.value.message
    assert remedy in raised.value.remedy
    tables.require(tables.named(checked(f"SELECT id FROM {TABLE}.branch_x WHERE lake.querying.rows.id = 1")))


@pytest.mark.parametrize(
    ("sql", "error"),
    [
        (f"SELECT * FROM {TABLE} VERSION AS OF 'release_9'", "Cannot find matching .* release_9"),
        (f"SELECT * FROM {TABLE} VERSION AS OF 9", "Cannot find snapshot with ID 9"),
        (f"SELECT * FROM {TABLE} TIMESTAMP AS OF '1990-01-01'", "Cannot find a snapshot older than 1990"),
        (f"SELECT * FROM {TABLE}.tag_release_9", "Cannot find matching .* release_9"),
        (f"SELECT * FROM {TABLE}.branch_x", r"Cannot use branch \(does not exist\): x"),
        ("SHOW TABLES IN lake.nobody", "Namespace does not exist: nobody"),
    ],
)
def test_what_does_not_exist_is_said(table: SparkSession, sql: str, error: str) -> None:
    with pytest.raises(ConfigError, match=rf"{error}(.|\n)*Remedy: correct the statement: .*refs"):
        answer(table, checked(sql))


def test_decimals_have_the_places_of_their_type(table: SparkSession) -> None:
    least = "CAST('0.0000000001' AS DECIMAL(38, 10))"
    sql = (
        f"SELECT {least}, array({least}), CAST('-9999999999999999999999999999.9999999999' AS DECIMAL(38, 10))"
    )
    ((one, several, large),) = answer(table, checked(sql)).rows
    assert [str(one), str(several)] == ["1E-10", "[Decimal('1E-10')]"]
    assert str(large) == "-9999999999999999999999999999.9999999999"
