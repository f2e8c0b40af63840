"""Small results come from a database without Spark, in the types that the readers of change tables expect."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from sqlalchemy import Integer, cast, column, select, table

from changeledger.config.connection import Connection
from changeledger.jdbc.database import JdbcDatabase
from changeledger.model.errors import SourceUnavailable
from sourcelab.postgres import plain_url
from sourcelab.services import Postgres

pytestmark = pytest.mark.integration

# By column: PostgreSQL's type, a literal of it, and the Python value.
CELLS: dict[str, tuple[str, str, Any]] = {
    "lsn": ("bytea", r"'\x0000002A00000F500003'", bytes.fromhex("0000002A00000F500003")),
    "whole": ("integer", "-7", -7),
    "large": ("bigint", "9007199254740993", 9007199254740993),
    "small": ("smallint", "3", 3),
    "exact": ("numeric(38, 9)", "12345678901234567890.123456789", Decimal("12345678901234567890.123456789")),
    "about": ("double precision", "0.1", 0.1),
    "flag": ("boolean", "true", True),
    "name": ("text", "'ä''b'", "ä'b"),
    "day": ("date", "'1753-01-01'", date(1753, 1, 1)),
    # A time in the hour that clocks in Europe skip.
    "moment": ("timestamp(6)", "'2026-03-29 02:30:00.123456'", datetime(2026, 3, 29, 2, 30, 0, 123456)),
    "minute": ("timestamp(6)", "'2026-03-29 02:30:00'", datetime(2026, 3, 29, 2, 30)),
}
QUERY = select(*map(column, CELLS)).select_from(table("cells"))


@pytest.fixture(scope="module")
def source(new_database: Callable[[], Postgres]) -> Postgres:
    service = new_database()
    with psycopg.connect(plain_url(service.url), autocommit=True) as session:
        columns = ", ".join(f"{name} {kind}" for name, (kind, _, _) in CELLS.items())
        values = ", ".join(literal for _, literal, _ in CELLS.values())
        session.execute(f"CREATE TABLE cells ({columns})")  # type: ignore[call-overload]
        session.execute(f"INSERT INTO cells VALUES ({values})")  # type: ignore[call-overload]
        session.execute("INSERT INTO cells DEFAULT VALUES")
    return service


@pytest.fixture
def database(source: Postgres) -> Iterator[JdbcDatabase]:
    with closing(JdbcDatabase("source", Connection.model_validate(source.connection))) as client:
        yield client


def test_cells_have_the_types_of_their_columns(database: JdbcDatabase) -> None:
    rows = sorted(database.rows(QUERY), key=lambda row: row["whole"] is None)
    assert rows[0] == {name: value for name, (_, _, value) in CELLS.items()}
    assert rows[1] == dict.fromkeys(CELLS)
    assert database.columns(QUERY.subquery("asked")) == list(CELLS)
    assert database.count([QUERY, QUERY]) == 4


def test_a_database_that_refuses_says_why_and_answers_the_next_question(database: JdbcDatabase) -> None:
    with pytest.raises(SourceUnavailable, match='relation "nowhere" does not exist'):
        database.rows(select(column("x")).select_from(table("nowhere")))
    assert database.count([QUERY]) == 2
    database.close()
    assert database.count([QUERY]) == 2, "another session"


@pytest.mark.parametrize("hidden", ["false", "true"])
def test_what_a_database_says_of_a_row(
    database: JdbcDatabase, monkeypatch: pytest.MonkeyPatch, hidden: str
) -> None:
    """22P02, invalid_text_representation, and 42P01, undefined_table (PostgreSQL, appendix A)."""
    monkeypatch.setenv("CHANGELEDGER_REDACT_VALUES", hidden)
    with pytest.raises(SourceUnavailable) as caught:
        database.rows(select(cast(column("name"), Integer)).select_from(table("cells")))
    assert ("ä'b" in str(caught.value)) == (hidden == "false")
    assert ("SQLSTATE 22P02" in str(caught.value)) == (hidden == "true")
    with pytest.raises(SourceUnavailable, match='relation "nowhere" does not exist'):
        database.rows(select(column("x")).select_from(table("nowhere")))
