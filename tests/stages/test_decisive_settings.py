"""A feed of change tables keeps the settings with which it read what is published."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from changeledger.config.feed import Feed
from changeledger.control import ControlStore, SourceMark
from changeledger.dialects.interface import TableDialect
from changeledger.dialects.registry import DIALECTS
from changeledger.model.errors import ConfigError
from changeledger.stages.extraction.same_sources import DIALECT, require_dialect, require_setting
from tests.feeds import feed_of
from tests.released import release

TABLE = "dbo.t"
UTC, BERLIN = {"time_zone": "UTC"}, {"time_zone": "Europe/Berlin"}
TEXT, NULLS = {"source": {"empty_is_null": False}}, {"source": {"empty_is_null": True}}


def feed(dialect: str, **settings: Any) -> Feed:
    return feed_of("read", TABLE, dialect=dialect, **{"source": {}, **settings})


def require(store: ControlStore, dialect: str, settings: dict[str, Any], released: dict[str, str]) -> None:
    of_dialect = DIALECTS[dialect]
    assert isinstance(of_dialect, TableDialect)
    assert of_dialect.decisive is not None
    require_setting(store, feed(dialect, **settings), of_dialect.decisive, released)


def store_of(folder: Path, fingerprint: str | None) -> ControlStore:
    store = ControlStore(f"sqlite:///{folder}/control.db")
    store.sources.save_marks("read", {TABLE: SourceMark("0A 2026-08-07", 0, fingerprint)})
    return store


@pytest.mark.parametrize(
    ("dialect", "fingerprint", "settings", "said"),
    [
        ("sqlserver_cdc", "UTC", BERLIN, r"`time_zone: UTC`.*`Europe/Berlin`"),
        ("qlik_tables", "false", NULLS, r"`empty_is_null: false`.*`true`"),
    ],
)
def test_another_setting_than_that_of_what_is_released(
    tmp_path: Path, dialect: str, fingerprint: str, settings: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError, match=rf"(?s){said}.*changeledger reset read"):
        require(store_of(tmp_path, fingerprint), dialect, settings, {TABLE: "0A"})


@pytest.mark.parametrize(
    ("dialect", "fingerprint", "settings", "released"),
    [
        ("sqlserver_cdc", "UTC", UTC, {TABLE: "0A"}),
        ("qlik_tables", "false", TEXT, {TABLE: "0A"}),
        # Nothing is released, or the feed is being loaded again; or nothing of this table is released.
        ("sqlserver_cdc", "UTC", BERLIN, {}),
        ("sqlserver_cdc", "UTC", BERLIN, {"dbo.other": "0A"}),
        # A mark of an earlier version does not contain the setting.
        ("sqlserver_cdc", None, BERLIN, {TABLE: "0A"}),
        ("qlik_tables", None, NULLS, {TABLE: "0A"}),
    ],
)
def test_a_setting_that_contradicts_nothing(
    tmp_path: Path,
    dialect: str,
    fingerprint: str | None,
    settings: dict[str, Any],
    released: dict[str, str],
) -> None:
    require(store_of(tmp_path, fingerprint), dialect, settings, released)


def test_another_dialect_than_that_of_what_is_released(tmp_path: Path) -> None:
    """LSNs and `__ct` rows are numbered by two counters: changes would stand in an order that never was."""
    store = store_of(tmp_path, "UTC")
    release(store, "read", [], counts={DIALECT: "sqlserver_cdc"})
    require_dialect(store, feed("sqlserver_cdc"))
    said = r"`dialect: sqlserver_cdc`.*`dialect: qlik_tables`(?s:.*)name of its own"
    with pytest.raises(ConfigError, match=said):
        require_dialect(store, feed("qlik_tables"))


def test_a_release_of_an_earlier_version_says_no_dialect(tmp_path: Path) -> None:
    store = store_of(tmp_path, "UTC")
    require_dialect(store, feed("qlik_tables"))
    release(store, "read", [])
    require_dialect(store, feed("qlik_tables"))
