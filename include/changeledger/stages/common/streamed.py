"""Of which tables changes are published, beside the rows of a full load, as the feed's releases keep it."""

from __future__ import annotations

from collections.abc import Mapping

from changeledger.dialects.interface import MessageDialect
from changeledger.model import change
from changeledger.stages.common.context import StageContext

# In the counts of a release.
STREAMED = "streamed"


def are_judged(ctx: StageContext) -> bool:
    """Have rows of a full load no position?"""
    if isinstance(ctx.dialect, MessageDialect):
        return ctx.dialect.has_loads_without_position
    return ctx.dialect.has_rows_without_position


def published(ctx: StageContext) -> frozenset[str]:
    """The tables in what the run goes on from; none if there is nothing, or it starts over."""
    release = None if ctx.starts_over else ctx.control.releases.latest(ctx.feed.feed)
    return frozenset(() if release is None else release.counts.get(STREAMED, ()))


def with_changes(ctx: StageContext, counts: Mapping[str, Mapping[str, int]]) -> list[str]:
    """These tables, and those of which the run has changes. `counts`: of each table, by operation."""
    of_run = {table for table, of_table in counts.items() if of_table.keys() - {change.SNAPSHOT}}
    return sorted(published(ctx) | of_run)
