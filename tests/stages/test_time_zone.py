"""A feed of local commit times keeps the zone that it has published by."""

from __future__ import annotations

from pathlib import Path

import pytest

from changeledger.config.feed import Feed
from changeledger.control import ControlStore, SourceMark
from changeledger.model.errors import ConfigError
from changeledger.stages.extraction.completeness import require_zone

TABLE = "dbo.t"


def feed(time_zone: str) -> Feed:
    settings = {
        "feed": "zoned", "dialect": "sqlserver_cdc", "database": "shop", "connection": "c", "source": {},
        "tables": [{"table": TABLE}], "time_zone": time_zone,
    }  # fmt: skip
    return Feed.model_validate(settings)


@pytest.fixture
def store(tmp_path: Path) -> ControlStore:
    store = ControlStore(f"sqlite:///{tmp_path}/control.db")
    store.sources.save_marks("zoned", {TABLE: SourceMark("0A 2026-08-07", 0, "UTC")})
    return store


def test_another_zone_than_that_of_what_is_released(store: ControlStore) -> None:
    with pytest.raises(ConfigError, match=r"(?s)`time_zone: UTC`.*`Europe/Berlin`.*changeledger reset zoned"):
        require_zone(store, feed("Europe/Berlin"), {TABLE: "0A"})


@pytest.mark.parametrize(
    ("time_zone", "released"),
    [("UTC", {TABLE: "0A"}), ("Europe/Berlin", {}), ("Europe/Berlin", {"dbo.other": "0A"})],
    ids=["the same", "nothing is released, or it is loaded again", "nothing of this table"],
)
def test_a_zone_that_contradicts_nothing(
    store: ControlStore, time_zone: str, released: dict[str, str]
) -> None:
    require_zone(store, feed(time_zone), released)


def test_a_mark_of_an_earlier_version_names_no_zone(store: ControlStore) -> None:
    store.sources.save_marks("zoned", {TABLE: SourceMark("0A 2026-08-07", 0, None)})
    require_zone(store, feed("Europe/Berlin"), {TABLE: "0A"})
