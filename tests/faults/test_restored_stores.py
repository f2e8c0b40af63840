"""A control store, catalog or warehouse is lost, restored or moved: the next run says so, with a remedy."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from pyiceberg.catalog import load_catalog
from pyspark.sql import SparkSession

from changeledger.config.feed import Feed
from changeledger.config.settings import Settings
from changeledger.control import Asked
from changeledger.lake import catalog, refs, same_releases
from changeledger.model.errors import ConfigError, StoresDisagree
from changeledger.stages import extract
from changeledger.stages.maintenance.rolling_back import roll_back
from tests.faults.matrix.lab import State
from tests.faults.two_releases import TABLES, TwoReleases, content, control, feed_of, following
from tests.integration.line import lake_name, run
from tests.lake_states import lake_of

pytestmark = [pytest.mark.integration, pytest.mark.long]

ASKED = Asked("a store was restored", "ann")
# The stores of an installation: the states of its control store, and of its catalog.
Stores = Callable[[State | None, State | None], SparkSession]


@pytest.fixture
def feed(two_releases: TwoReleases, monkeypatch: pytest.MonkeyPatch) -> Feed:
    return feed_of(two_releases.source, monkeypatch)


@pytest.fixture
def stores(
    spark: SparkSession, two_releases: TwoReleases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Stores:
    numbers = count(1)

    def of(control_store: State | None, lake: State | None) -> SparkSession:
        now = State(tmp_path / str(next(numbers)))
        now.folder.mkdir()
        for state, name in ((control_store, "control.db"), (lake, "catalog.db")):
            if state is not None:
                (state.copy(now.folder / f"of {name}").folder / name).rename(now.folder / name)
        return lake_of(spark, now, two_releases.files, monkeypatch)

    return of


def test_both_are_of_today(stores: Stores, feed: Feed, two_releases: TwoReleases) -> None:
    lake = stores(two_releases.second, two_releases.second)
    assert extract.run(lake, feed, following()) is False
    with pytest.raises(ConfigError, match="nothing would be taken back"):
        roll_back(lambda: lake, feed, 2, ASKED)


def test_the_control_store_is_lost(stores: Stores, feed: Feed, two_releases: TwoReleases) -> None:
    lake = stores(None, two_releases.second)
    before = content(feed)
    with pytest.raises(StoresDisagree, match="the control store knows no release, but the lake has some"):
        extract.run(lake, feed, following())
    assert content(feed) == before


def test_the_control_store_is_of_yesterday(stores: Stores, feed: Feed, two_releases: TwoReleases) -> None:
    lake = stores(two_releases.first, two_releases.second)
    before = content(feed)
    with pytest.raises(StoresDisagree, match="the lake has release 2, but the control store ends at 1"):
        extract.run(lake, feed, following())
    assert content(feed) == before
    assert roll_back(lambda: lake, feed, 1, ASKED).id == 3, "the number of a release is given once"
    run(lake, feed, following())
    assert content(feed) == before
    assert content(feed, "release_2") == before


def test_the_lake_is_of_yesterday(stores: Stores, feed: Feed, two_releases: TwoReleases) -> None:
    stores(two_releases.second, two_releases.second)
    today = content(feed)
    lake = stores(two_releases.second, two_releases.first)
    with pytest.raises(StoresDisagree, match=r"ends? at release 1, .* an older lake was restored"):
        extract.run(lake, feed, following())
    roll_back(lambda: lake, feed, 1, ASKED)
    run(lake, feed, following())
    assert content(feed) == today


def test_the_catalog_is_lost(stores: Stores, feed: Feed, two_releases: TwoReleases) -> None:
    lake = stores(two_releases.second, None)
    with pytest.raises(StoresDisagree, match=r"the lake has no table lake\.day_two\.dispositions"):
        extract.run(lake, feed, following())
    register(two_releases.metadata)
    assert extract.run(lake, feed, following()) is False
    same_releases.require_release(control(), feed.feed, catalog.tables(feed.namespace))
    assert len(content(feed)[TABLES[0]]) > 0


def register(files: frozenset[Path]) -> None:
    """Registers each table's newest metadata file among these, since other tests have written later ones."""
    lake = load_catalog("lake", **Settings().catalog)
    for table in {file.parents[1] for file in files}:
        newest = max((f for f in files if f.parents[1] == table), key=lambda f: int(f.name.split("-")[0]))
        lake.create_namespace_if_not_exists(table.parent.name)
        lake.register_table(f"{table.parent.name}.{table.name}", str(newest))


def test_main_of_one_table_was_moved_back(stores: Stores, feed: Feed, two_releases: TwoReleases) -> None:
    lake = stores(two_releases.second, two_releases.second)
    before, table = content(feed), lake_name(feed, TABLES[0])
    first = refs.snapshot_of(table, "release_1")
    lake.sql(f"CALL lake.system.rollback_to_snapshot('{table.removeprefix('lake.')}', {first})")
    with pytest.raises(StoresDisagree, match=f"main of {table} was moved back behind release 2"):
        same_releases.require_release(control(), feed.feed, [table])
    roll_back(lambda: lake, feed, 2, ASKED)
    assert content(feed) == before


def test_on_another_machine(stores: Stores, feed: Feed, two_releases: TwoReleases) -> None:
    """The catalog and its metadata name files by absolute paths, so the old path must lead to them."""
    lake = stores(two_releases.second, two_releases.second)
    before, files = content(feed), two_releases.files
    elsewhere = files.rename(files.with_name("elsewhere"))
    try:
        with pytest.raises(StoresDisagree, match="a file that the lake's catalog names is gone"):
            extract.run(lake, feed, following())
        files.symlink_to(elsewhere)
        assert extract.run(lake, feed, following()) is False
        assert content(feed) == before
    finally:
        files.unlink(missing_ok=True)
        elsewhere.rename(files)
