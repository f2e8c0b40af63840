"""A release in the control store, without running the stages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from changeledger.control import BuiltSnapshots, ControlStore
from changeledger.model.contract import Contract
from changeledger.model.window import Window

DAY = Window(start=datetime(2026, 1, 31, tzinfo=UTC), end=datetime(2026, 2, 1, tzinfo=UTC))


def release(
    control: ControlStore,
    feed: str,
    contracts: Iterable[Contract],
    window: Window = DAY,
    snapshots: Mapping[str, int] | None = None,
    counts: dict[str, Any] | None = None,
    position: Any = None,
) -> int:
    """Commits a release and returns its id: these contracts normalized its window, and its audit passed."""
    built, position = BuiltSnapshots("branch", dict(snapshots or {})), position or {}
    control.windows.open(feed, window, control.windows.position(feed), position)
    control.windows.begin_stage(feed, window, "normalize")
    control.windows.finish_stage(feed, window, "normalize", built, contracts)
    control.audits.save(feed, window, [], built)
    return control.releases.commit(feed, window, built.tables, counts or {}, position)
