"""`changeledger query` answers queries, and refuses what would change something."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from changeledger.cli.querying import asked
from changeledger.model.errors import ConfigError

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
        f"WITH some AS (SELECT id FROM {TABLE}) SELECT id FROM some ORDER BY id",
        f"FROM {TABLE} SELECT id ORDER BY id",
        "VALUES (1), (2)",
        "(SELECT 1) UNION ALL (SELECT 2)",
        "SELECT 1) UNION ALL (SELECT 2",
    ],
)
def test_a_query_is_answered(table: SparkSession, sql: str) -> None:
    assert [row[0] for row in asked(table, sql).collect()] == [1, 2]


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        (f"TABLE {TABLE}", "1"),
        ("SHOW TABLES IN lake.querying", "rows"),
        (f"\n describe table {TABLE}", "int"),
        (f"desc {TABLE}", "int"),
        (f"EXPLAIN SELECT * FROM {TABLE}", "Physical Plan"),
        (f"EXPLAIN DROP TABLE {TABLE}", "DropTable"),
    ],
)
def test_what_is_there_is_shown(table: SparkSession, sql: str, said: str) -> None:
    assert said in str(asked(table, sql).collect())
    assert table.catalog.tableExists(TABLE)


@pytest.mark.parametrize(
    "sql",
    [
        f"DROP TABLE {TABLE}",
        f"-- \\\nSHOW TABLES\nDROP TABLE {TABLE}",
        f"/* SHOW */ DROP TABLE {TABLE}",
        f"WITH some AS (SELECT 3 AS id) INSERT INTO {TABLE} SELECT id FROM some",
        f"FROM {TABLE} INSERT INTO {TABLE} SELECT id",
        f"SELECT 1; DROP TABLE {TABLE}",
        f"SHOW TABLES; DROP TABLE {TABLE}",
        f"SELECT 1); DROP TABLE {TABLE}; (SELECT 1",
        f"BEGIN DROP TABLE {TABLE}; END",
        f"EXECUTE IMMEDIATE 'DROP TABLE {TABLE}'",
        f"CALL lake.system.expire_snapshots(table => '{TABLE}', retain_last => 1)",
        f"ALTER TABLE {TABLE} CREATE BRANCH b",
        f"TRUNCATE TABLE {TABLE}",
        # Words that could also be the names of a table and its alias.
        "CLEAR CACHE",
        "SET spark.sql.ansi.enabled=false",
        "RESET",
        "USE lake",
        "",
    ],
)
def test_nothing_but_a_query_is_answered(table: SparkSession, sql: str) -> None:
    with pytest.raises(ConfigError, match="`query` changes nothing: it answers one SELECT"):
        asked(table, sql)
    assert sorted(row.id for row in table.table(TABLE).collect()) == [1, 2]


def test_a_wrong_query_is_reported_as_spark_does(table: SparkSession) -> None:
    with pytest.raises(ConfigError, match=r"Syntax error at or near 'FROM'"):
        asked(table, f"SELECT (id FROM {TABLE}")
