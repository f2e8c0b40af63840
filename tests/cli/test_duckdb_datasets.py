"""Lake tables as DuckDB scans them, without Spark: metadata tables, and a table without a snapshot."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from changeledger.cli.duckdb_sql import engine
from changeledger.cli.duckdb_sql.addresses import METADATA
from changeledger.lake import catalog
from changeledger.model.errors import ConfigError

ROWS = pa.table({"id": pa.array([1, 2], pa.int32())})


@pytest.fixture(autouse=True)
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table as left by a run that is not released."""
    monkeypatch.setenv("CHANGELEDGER_HOME", str(tmp_path))
    monkeypatch.delenv("CHANGELEDGER_CATALOG", raising=False)
    catalog.create_namespace("shop")
    catalog._catalog().create_table(("shop", "orders"), ROWS.schema)


def rows(name: str) -> list[tuple[object, ...]]:
    return list(engine.answer(f"FROM lake.shop.orders{name}").rows)


def test_a_table_of_which_nothing_is_published() -> None:
    assert rows("") == []
    for name in sorted(METADATA - {"entries", "partitions"}):
        assert rows(f".{name}") == []
    for name in ("entries", "partitions"):
        with pytest.raises(ConfigError, match=rf"(?s)no rows yet, and so has no {name}.*orders\.refs'"):
            rows(f".{name}")
    catalog.load("lake.shop.orders").append(ROWS.slice(0, 0))
    with pytest.raises(ConfigError, match="no rows yet, and so has no files"):
        rows(".files")


def test_times_of_snapshots_have_their_zone() -> None:
    catalog.load("lake.shop.orders").append(ROWS)
    for name in ("snapshots", "history", "partitions"):
        times = [cell for row in rows(f".{name}") for cell in row if isinstance(cell, datetime)]
        assert {time.tzinfo for time in times} == {UTC}, name
