"""What is read does not depend on the zone of the machine that reads it."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession
from sqlalchemy import column, select, table

from changeledger.config.connection import Connection
from changeledger.dialects.tables.sql import as_read
from changeledger.model.sql_type import SqlType
from changeledger.storage.jdbc import JdbcDatabase
from sourcelab.postgres import plain_url
from sourcelab.services import Postgres

pytestmark = pytest.mark.integration


def test_a_moment_in_a_target_on_postgresql_is_read_in_utc(spark: SparkSession, tmp_path: Path) -> None:
    """PostgreSQL prints moments in the zone of the session, to which its driver gives that of the JVM."""
    zones = spark.sparkContext._jvm.java.util.TimeZone
    own = zones.getDefault()
    with (
        Postgres(tmp_path) as postgres,
        psycopg.connect(plain_url(postgres.url), autocommit=True) as session,
    ):
        session.execute("CREATE TABLE moments (at timestamptz(6))")
        session.execute("INSERT INTO moments VALUES ('2026-08-07 16:25:06.863899+01:00')")
        target = JdbcDatabase("target", Connection.model_validate(postgres.connection))
        at = as_read(column("at"), SqlType.parse("datetimeoffset(6)"))
        zones.setDefault(zones.getTimeZone("Asia/Kolkata"))
        try:
            query = select(at.label("at")).select_from(table("moments"))
            rows = [*target.rows(query), *target.read(spark, [query]).collect()]
        finally:
            zones.setDefault(own)
    assert [row["at"] for row in rows] == ["2026-08-07 15:25:06.863899+00"] * 2
