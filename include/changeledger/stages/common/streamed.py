"""The tables that have published changes other than rows of a full load, as stored with releases."""

from __future__ import annotations

from collections.abc import Mapping

from changeledger.dialects.interface import MessageDialect
from changeledger.model import change
from changeledger.stages.common.context import StageContext

# Key in the counts of a release.
STREAMED = "streamed"


def are_judged(ctx: StageContext) -> bool:
    """Returns whether this is tracked for the dialect: rows of its full loads have no position."""
    if isinstance(ctx.dialect, MessageDialect):
        return ctx.dialect.has_loads_without_position
    return ctx.dialect.has_rows_without_position


def published(ctx: StageContext) -> frozenset[str]:
    """Returns these tables of the release that the run continues from; empty without one, as in a reset."""
    release = None if ctx.starts_over else ctx.control.releases.latest(ctx.feed.feed)
    return frozenset(() if release is None else release.counts.get(STREAMED, ()))


def with_changes(ctx: StageContext, counts: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Returns the published tables and those for which the run has changes.

    `counts`: numbers of changes by table and operation.
    """
    of_run = {table for table, of_table in counts.items() if of_table.keys() - {change.SNAPSHOT}}
    return sorted(published(ctx) | of_run)
