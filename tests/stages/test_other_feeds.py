"""What a feed learns about its tables from the files of other feeds, while one of these cannot be read."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from changeledger.control import ControlStore
from changeledger.dialects.registry import DIALECTS
from changeledger.model.contract import Column, Contract
from changeledger.stages.normalization.other_feeds import OtherFeeds
from tests.feeds import feed_of
from tests.released import release

TABLE = "dbo.t"
OTHER = """\
feed: other
dialect: ces
database: shop
connection: c
source: {topics: [t]}
tables: [{table: dbo.t, columns: [{name: total, computed: true}]}]
"""
COMPUTED = Contract(
    table=TABLE,
    columns=(
        Column(name="id", type="int", ordinal=1, key_position=1),
        Column(name="total", type="int", ordinal=2, computed=True),
    ),
)


def computed(folder: Path, control: ControlStore, other: str) -> frozenset[str]:
    """Returns the computed columns, with this text in the other feed's file."""
    (folder / "other.yaml").write_text(other)
    feed, settings = feed_of("own", TABLE, dialect="debezium"), SimpleNamespace(feeds=folder)
    ctx: Any = SimpleNamespace(feed=feed, control=control, settings=settings, dialect=DIALECTS[feed.dialect])
    return OtherFeeds(ctx).computed(TABLE)


def test_a_broken_file_makes_no_column_one_of_values(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """docs/types.md: a computed column is `not_captured`, even if a snapshot has its value (ADR 0017)."""
    control = ControlStore(f"sqlite:///{tmp_path}/control.db")
    folder = tmp_path / "feeds"
    folder.mkdir()
    assert computed(folder, control, OTHER) == {"total"}
    release(control, "own", [COMPUTED])
    assert computed(folder, control, OTHER + "colour: red\n") == {"total"}
    assert "other.yaml is not valid" in caplog.text
    # It can become an ordinary column again.
    assert computed(folder, control, OTHER.replace("computed: true", "type: int")) == frozenset()
