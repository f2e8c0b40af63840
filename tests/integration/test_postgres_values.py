"""Values of a PostgreSQL target that Spark's own reader rounds or misreads."""

from __future__ import annotations

import psycopg
import pytest
from pyspark.sql import SparkSession
from sqlalchemy import column, select, table

from changeledger.config.connection import Connection
from changeledger.jdbc.database import JdbcDatabase
from sourcelab.postgres import plain_url
from sourcelab.services import Postgres

pytestmark = pytest.mark.integration


def test_a_number_of_more_digits_than_sparks_is_read_in_full(spark: SparkSession, postgres: Postgres) -> None:
    with psycopg.connect(plain_url(postgres.url), autocommit=True) as session:
        session.execute(
            "CREATE TABLE numbers (at timestamp, any_n numeric, n50 numeric(50,10), n5 numeric(5,2))"
        )
        session.execute("INSERT INTO numbers VALUES ('2026-08-07', 0.1234567890123456789, 1.5, 1.25)")
    target = JdbcDatabase("target", Connection.model_validate(postgres.connection))
    query = select(*map(column, ("at", "any_n", "n50", "n5"))).select_from(table("numbers"))
    frame = target.read(spark, [query, query])
    assert [kind for _, kind in frame.dtypes] == ["timestamp_ntz", "string", "string", "decimal(5,2)"]
    rows = [tuple(map(str, row)) for row in frame.collect()]
    assert rows == [("2026-08-07 00:00:00", "0.1234567890123456789", "1.5000000000", "1.25")] * 2


def test_a_time_of_day_that_is_stated_as_text_is_text(spark: SparkSession, postgres: Postgres) -> None:
    with psycopg.connect(plain_url(postgres.url), autocommit=True) as session:
        session.execute("CREATE TABLE clocks (id int, t3 time(3), t6 time)")
        session.execute("INSERT INTO clocks VALUES (1, '16:25:00.5', '23:59:59.123456')")
    target = JdbcDatabase("target", Connection.model_validate(postgres.connection))
    (row,) = target.read(
        spark, [select(*map(column, ("id", "t3", "t6"))).select_from(table("clocks"))]
    ).collect()
    assert tuple(row) == (1, "16:25:00.5", "23:59:59.123456")
