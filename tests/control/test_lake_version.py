"""A control store of version 0.1: what becomes of its rows, and that its lake is to be migrated first."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import text

from changeledger.control import ControlStore
from changeledger.control.database import engine_for
from changeledger.model.errors import ConfigError
from tests.control.store_of_0_1 import OF_0_1, insert_rows, migrated_to
from tests.released import DAY


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/control.db"


def test_a_fresh_store_has_the_newest_lake(url: str) -> None:
    assert ControlStore(url).has_current_lake()


def test_a_store_that_nothing_was_run_with_has_the_newest_lake(url: str) -> None:
    migrated_to(url, OF_0_1)
    assert ControlStore(url).has_current_lake()


def test_a_store_of_an_earlier_version(url: str) -> None:
    migrated_to(url, OF_0_1)
    with engine_for(url).begin() as connection:
        insert_rows(connection)
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
