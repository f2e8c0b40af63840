"""A control store of version 0.1 in PostgreSQL becomes this version's, with all rows; also after a kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Boolean, Column, DateTime, Integer, MetaData, Table, inspect, select, text
from sqlalchemy.dialects.postgresql import JSON

from changeledger.config.settings import PROJECT
from changeledger.control import ControlStore
from changeledger.control.database import engine_for
from changeledger.control.tables.base import ControlTable
from changeledger.model.errors import ConfigError
from sourcelab.services import Postgres
from tests.control.store_of_0_1 import OF_0_1, insert_rows, migrated_to
from tests.released import DAY, release

pytestmark = pytest.mark.integration
AT = datetime(2026, 1, 31, 12, 30, tzinfo=UTC)
VERSIONS = "changeledger_version"
RENAMED = {"writer_schemas": "avro_schemas", "shapes": "writer_schemas", "source_looks": "source_states"}
Rows = dict[str, list[dict[str, Any]]]

# Opens the store as any process does, and is killed before that statement.
_KILLED = """
import os, signal, sys
from sqlalchemy import Engine, event
from changeledger.control import ControlStore

@event.listens_for(Engine, "before_cursor_execute")
def kill(connection, cursor, statement, *_):
    if sys.argv[2] in " ".join(statement.split()):
        os.kill(os.getpid(), signal.SIGKILL)

ControlStore(sys.argv[1], any_lake=True)
"""


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    with Postgres(tmp_path_factory.mktemp("postgres")) as service:
        yield service


@pytest.fixture
def url(postgres: Postgres, request: pytest.FixtureRequest) -> str:
    """A database of the test's own, with the store of 0.1 and rows in each of its tables."""
    name = f"control_{abs(hash(request.node.name))}"
    with engine_for(postgres.url).connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    url = postgres.url.rsplit("/", 1)[0] + f"/{name}"
    migrated_to(url, OF_0_1)
    with engine_for(url).begin() as connection:
        insert_rows(connection)
        connection.execute(text("SELECT setval('releases_id_seq', 1)"))
        for table in tables(url):
            for number in range(2):
                connection.execute(table.insert().values(row_of(table, number)))
    return url


def tables(url: str) -> list[Table]:
    metadata = MetaData()
    metadata.reflect(engine_for(url))
    return [table for table in metadata.sorted_tables if table.name != VERSIONS]


def row_of(table: Table, number: int) -> dict[str, Any]:
    return {one.name: cell(one, number) for one in table.columns if one.autoincrement is not True}


def cell(column: Column[Any], number: int) -> Any:
    if isinstance(column.type, DateTime):
        return AT
    if isinstance(column.type, JSON):
        return {"n": {"legitimate": 2**60 + number}}
    if isinstance(column.type, Boolean):
        return True
    if isinstance(column.type, Integer):
        return 10 + number
    return f"{column.name} {number}, ä"


def stored(url: str) -> Rows:
    with engine_for(url).connect() as connection:
        return {
            table.name: sorted((dict(row) for row in connection.execute(select(table)).mappings()), key=repr)
            for table in tables(url)
        }


def version(url: str) -> str:
    with engine_for(url).connect() as connection:
        return str(connection.scalar(text(f"SELECT version_num FROM {VERSIONS}")))


def expected(before: Rows) -> Rows:
    """The rows of 0.1 by this version's names."""
    found = {RENAMED.get(name, name): [dict(row) for row in rows] for name, rows in before.items()}
    for row in found["writer_schemas"]:
        row["schema_id"] = row.pop("shape_id")
    for row in found["releases"]:
        row["tables"] = {
            name.replace("shop.breaks", "shop.image_chain_breaks"): at for name, at in row["tables"].items()
        }
    for row in found["comparisons"]:
        if row["id"] == "c":
            row["counts"] = {"expected": 3, "extra": 1, "not_captured": 3}
            row["columns"] = {"not_sent": {"not_captured": 3}}
        else:
            row["columns"] = {"n": {"expected": row["columns"]["n"]["legitimate"]}}
    for row in found["proofs"]:
        if row["id"] == "p":
            row["counts"] = {"extra": 2}
    found["stages"] = [row for row in found["stages"] if row["window_id"] != "flies"]
    for row in found["windows"]:
        row["built_on"] = None if row["status"] == "open" else row["built_on"]
    found["lake"] = [{"version": 1}]
    return {name: sorted(rows, key=repr) for name, rows in found.items()}


def assert_migrated(url: str, before: Rows) -> None:
    after, wanted = stored(url), expected(before)
    assert after.keys() == wanted.keys()
    for name, rows in wanted.items():
        keys = [sorted(row.items()) for row in after[name]]
        assert sorted(keys, key=repr) == sorted((sorted(row.items()) for row in rows), key=repr), name


def test_all_rows_are_there_afterwards(url: str) -> None:
    before = stored(url)
    assert len(before) == 17
    assert all(len(rows) >= 2 for rows in before.values())
    with pytest.raises(ConfigError, match="changeledger migrate"):
        ControlStore(url)
    assert_migrated(url, before)
    with engine_for(url).connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSIONS})
        assert compare_metadata(context, ControlTable.metadata) == []

    store = ControlStore(url, any_lake=True)
    store.lake_is_migrated()
    store = ControlStore(url)
    later = DAY.model_copy(update={"start": AT})
    assert release(store, "shop", [], later, {"lake.shop.t": 3}) > 1, "its id is a new one"


@pytest.mark.parametrize(
    "statement",
    [
        "RENAME TO avro_schemas",
        "CREATE TABLE lake",
        "UPDATE comparisons",
        "UPDATE windows",
        "INSERT INTO lake",
    ],
)
def test_killed_in_between_and_run_again(url: str, statement: str) -> None:
    before = stored(url)
    environment = {**os.environ, "PYTHONPATH": str(PROJECT / "include")}
    line = [sys.executable, "-c", _KILLED, url, statement]
    killed = subprocess.run(line, env=environment, check=False, timeout=120, cwd=Path.cwd())
    assert killed.returncode == -signal.SIGKILL
    assert version(url) == OF_0_1
    assert stored(url) == before, "all of it, or nothing"
    assert not ControlStore(url, any_lake=True).has_current_lake()
    assert_migrated(url, before)
    assert not inspect(engine_for(url)).has_table("shapes")
