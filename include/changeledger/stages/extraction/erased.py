"""Warns that a run which reads the past again may bring back rows of erased keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from changeledger.control import furthest
from changeledger.model.wording import counted
from changeledger.stages.common.context import StageContext, log


def warn(ctx: StageContext) -> None:
    """Warns of erased keys in what the window reads again, since the source may still have them.

    The window reads again what was released, or what an earlier try of it has read.
    """
    opened = ctx.opened("extract")
    was_released = begins_before(opened.from_position or {}, ctx.released)
    since = None if ctx.starts_over else ctx.window.start if was_released else opened.opened_at
    erased = Counter(row.table for row in ctx.control.upkeep.erasures(ctx.feed.feed, since))
    if not erased:
        return
    keys = ", ".join(f"{counted(count, 'key')} of {table}" for table, count in sorted(erased.items()))
    log.warning(
        "%s: the window reads again what was read before an erasure (%s). What the source still has of it is "
        "published again: erase it once more after this run (docs/maintenance.md)",
        ctx.feed.feed,
        keys,
    )


def begins_before(start: Mapping[str, Any], released: Mapping[str, Any]) -> bool:
    """Returns whether a window that begins at `start` reads records that were released."""
    return any(
        furthest(released[source], first) != first
        for source, first in start.items()
        if first is not None and source in released
    )
