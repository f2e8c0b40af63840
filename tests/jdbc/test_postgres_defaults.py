"""Values are the same whatever defaults the PostgreSQL database or role of a source has."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import sql
from sqlalchemy import literal_column, select

from changeledger.config.connection import Connection
from changeledger.jdbc.database import JdbcDatabase
from sourcelab.postgres import plain_url
from sourcelab.services import Postgres


@pytest.mark.parametrize(
    ("setting", "value", "read", "wanted"),
    [
        # IEEE 754: the sum is the double behind 0.3. PostgreSQL 12's release notes offer 0 as its old output.
        ("extra_float_digits", "0", "0.1::float8 + 0.2::float8", 0.30000000000000004),
        ("TimeZone", "Asia/Kathmandu", "CAST(timestamptz '2024-03-10Z' AS text)", "2024-03-10 00:00:00+00"),
        ("DateStyle", "German, DMY", "CAST('2024-03-10'::date AS text)", "2024-03-10"),
    ],
)  # fmt: skip
def test_a_default_changes_no_value(
    postgres: Postgres, setting: str, value: str, read: str, wanted: object
) -> None:
    with psycopg.connect(plain_url(postgres.url), autocommit=True) as session:
        place, name = sql.Identifier(postgres.database), sql.Identifier(setting)
        session.execute(sql.SQL("ALTER DATABASE {} SET {} = {}").format(place, name, sql.Literal(value)))
    database = JdbcDatabase("shop", Connection.model_validate(postgres.connection))
    assert database.rows(select(literal_column(read).label("cell"))) == [{"cell": wanted}]
    database.close()
