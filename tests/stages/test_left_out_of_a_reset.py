"""A reset that ran without a change table: what follows the table's published changes may be gone."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from changeledger.control import AskedReset, ControlStore
from changeledger.lake import catalog
from changeledger.model import change
from changeledger.model.errors import SourceDataLostError
from changeledger.stages.extraction.same_sources import require_places
from tests.control.test_control import hour
from tests.feeds import feed_of
from tests.released import release
from tests.stages.test_joined_tables import replace

PARTS, LOADED, OTHER = "dbo.parts", "dbo.loaded", "dbo.other"
FEED = feed_of("left_out_of_a_reset", PARTS, LOADED, OTHER, dialect="sqlserver_cdc", source={})


def test_a_table_without_a_position(tmp_path: Path) -> None:
    """A rollback removes the table's rows; a table that was only loaded never has a position."""
    control = ControlStore(f"sqlite:///{tmp_path}/control.db")
    ctx: Any = SimpleNamespace(feed=FEED, names=FEED.names, control=control, starts_over=False)
    catalog.create_namespace(FEED.feed)
    for table in (PARTS, LOADED):
        replace(FEED.names[table].changes, change.DISPOSITION_COLUMNS, [{"window_id": "1"}])
    release(control, FEED.feed, [], hour(0), {"t": 0}, position={OTHER: "0A", PARTS: "0A"})
    require_places(ctx, {OTHER: "0A"})
    control.resets.ask(FEED.feed, AskedReset("wrong rows", "ann"))
    require_places(ctx, {OTHER: "0A"})
    release(control, FEED.feed, [], hour(1), {"t": 1}, position={OTHER: "0B"})
    with pytest.raises(SourceDataLostError, match=f"without {PARTS}, whose published") as lost:
        require_places(ctx, {OTHER: "0B"})
    assert f"changeledger reset {FEED.feed} --reason" in lost.value.remedy
    ctx.starts_over = True
    require_places(ctx, {})
    ctx.starts_over = False
    require_places(ctx, {OTHER: "0B", PARTS: "0A"})
    replace(FEED.names[PARTS].changes, change.DISPOSITION_COLUMNS, [])
    require_places(ctx, {OTHER: "0B"})
