"""A run's error is kept, whatever it quotes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from changeledger.control import ControlStore
from changeledger.model.window import Window
from sourcelab.services import Postgres

BEGIN = datetime(2026, 1, 31, 5, tzinfo=UTC)


@pytest.mark.parametrize("database", ["sqlite", pytest.param("postgresql", marks=pytest.mark.integration)])
def test_an_error_that_quotes_a_nul(database: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """SQL Server's texts may contain a NUL, PostgreSQL's may not (its page "Character Types").

    An error raised while storing it would hide why the run has failed.
    """
    url = f"sqlite:///{tmp_path}/control.db"
    if database == "postgresql":
        postgres: Postgres = request.getfixturevalue("postgres")
        url = postgres.url
    failures = ControlStore(url).failures
    failures.save("shop", Window(start=BEGIN, end=BEGIN + timedelta(hours=1)), "audit", "no number: a\0b\nc")
    failures.save_of_database("verify_shop", "PublishedDrifts: \0")
    errors = [row and row.error for row in map(failures.of_feed, ("shop", "verify_shop"))]
    assert errors == ["no number: a\\x00b\nc", "PublishedDrifts: \\x00"]
