"""What the published changes of tables have been like, as stored with releases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from changeledger.dialects.interface import MessageDialect
from changeledger.stages.common.context import StageContext

# Keys in the counts of a release: the tables that have published changes other than rows of a full load, and
# those that have published changes with an LSN.
STREAMED: Final = "streamed"
WITH_LSNS: Final = "with_lsns"


def loads_are_judged(ctx: StageContext) -> bool:
    """Returns whether rows of the dialect's full loads have no position."""
    if isinstance(ctx.dialect, MessageDialect):
        return ctx.dialect.has_loads_without_position
    return ctx.dialect.has_rows_without_position


def lsns_are_judged(ctx: StageContext) -> bool:
    """Returns whether the dialect orders changes by LSNs that some sources do not write."""
    return isinstance(ctx.dialect, MessageDialect) and ctx.dialect.has_changes_without_lsn


def published(ctx: StageContext) -> dict[str, frozenset[str]]:
    """Returns these tables, by key, of the release that the run continues from.

    They are empty without such a release, as in a reset.
    """
    release = None if ctx.starts_over else ctx.control.releases.latest(ctx.feed.feed)
    counts = {} if release is None else release.counts
    return {key: frozenset(counts.get(key, ())) for key in (STREAMED, WITH_LSNS)}


def with_tables(ctx: StageContext, of_run: Mapping[str, set[str]]) -> dict[str, list[str]]:
    """Returns, by key, the published tables and those of the run."""
    return {key: sorted(tables | of_run[key]) for key, tables in published(ctx).items()}
