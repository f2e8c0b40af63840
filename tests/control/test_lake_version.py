"""A control store of version 0.1: what becomes of its rows, and that its lake is to be migrated first."""

from __future__ import annotations

from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import text

from changeledger.control import ControlStore
from changeledger.control.database import MIGRATIONS, engine_for
from changeledger.model.errors import ConfigError
from tests.released import DAY

OF_0_1 = "0012"
AT = "2026-01-31 00:00:00"
_WINDOW = {"feed": "shop", "start": AT, "end": AT, "to_position": "{}", "opened_at": AT}
_STAGE = {"feed": "shop", "stage": "extract", "branch": "run", "tables": "{}", "at": AT}
_RELEASED = '{"lake.shop.breaks": 7, "lake.shop.dbo_breaks": 8, "lake.shop.quarantine": 9}'
ROWS: tuple[tuple[str, dict[str, str | int]], ...] = (
    ("windows", {**_WINDOW, "window_id": DAY.id, "status": "released", "built_on": 0}),
    ("windows", {**_WINDOW, "window_id": "flies", "status": "open", "built_on": 1}),
    ("stages", {**_STAGE, "window_id": DAY.id}),
    ("stages", {**_STAGE, "window_id": "flies"}),
    (
        "releases",
        {
            "id": 1, "feed": "shop", "window_id": DAY.id, "status": "completed", "tables": _RELEASED,
            "counts": "{}", "positions": "{}", "created_at": AT,
        },
    ),
    (
        "comparisons",
        {
            "id": "c", "database": "shop", "table": "t", "reference": "a", "feed": "b", "outcome": "warn",
            "counts": '{"legitimate": 3, "extra": 1, "not_sent": 3}',
            "columns": '{"not_sent": {"not_sent": 3}}', "spans": "[]", "at": AT,
        },
    ),
    (
        "proofs",
        {
            "id": "p", "against": "source", "snapshot_id": "s", "database": "shop", "table": "t",
            "feed": "shop", "release": 1, "outcome": "drift", "since": AT, "until": AT,
            "counts": '{"surplus": 2}', "at": AT,
        },
    ),
)  # fmt: skip


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/control.db"


def migrated_to(url: str, revision: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    with engine_for(url).begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)


def test_a_fresh_store_has_the_newest_lake(url: str) -> None:
    assert ControlStore(url).has_current_lake()


def test_a_store_that_nothing_was_run_with_has_the_newest_lake(url: str) -> None:
    migrated_to(url, OF_0_1)
    assert ControlStore(url).has_current_lake()


def test_a_store_of_an_earlier_version(url: str) -> None:
    migrated_to(url, OF_0_1)
    with engine_for(url).begin() as connection:
        for table, row in ROWS:
            names = ", ".join(f'"{name}"' for name in row)
            values = ", ".join(f":{name}" for name in row)
            connection.execute(text(f'INSERT INTO "{table}" ({names}) VALUES ({values})'), row)
    with pytest.raises(ConfigError, match="changeledger migrate"):
        ControlStore(url)

    store = ControlStore(url, any_lake=True)
    assert not store.has_current_lake()
    assert store.feeds() == ["shop"]
    (release,) = store.releases_after("shop", 0)
    assert release.tables == {
        "lake.shop.image_chain_breaks": 7, "lake.shop.dbo_breaks": 8, "lake.shop.quarantine": 9
    }  # fmt: skip
    (compared,) = store.comparisons("shop")
    assert compared.counts == {"expected": 3, "extra": 1, "not_captured": 3}
    assert compared.columns == {"not_sent": {"not_captured": 3}}, "a column keeps its name"
    assert [row.counts for row in store.proofs("shop")] == [{"extra": 2}]
    (flies,) = store.open_windows("shop")
    assert flies.built_on is None
    with engine_for(url).connect() as connection:
        stages = connection.execute(text("SELECT window_id FROM stages")).all()
    assert [row[0] for row in stages] == [DAY.id], "what flies begins again"

    store.lake_is_migrated()
    assert ControlStore(url).has_current_lake()
