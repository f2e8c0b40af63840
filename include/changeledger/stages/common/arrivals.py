"""What releases keep so that the audit can judge how later changes arrive (`rules.OF_ARRIVAL`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from changeledger.dialects.interface import MessageDialect
from changeledger.kernels.log_end import LogEnd
from changeledger.stages.common.context import StageContext

# Keys in the counts of a release: how far the source's log has been read; the tables that have published
# changes other than rows of a full load; and those that have published changes with an LSN.
LOG_END: Final = "log_end"
STREAMED: Final = "streamed"
WITH_LSNS: Final = "with_lsns"


def has_log_end(ctx: StageContext) -> bool:
    """Returns whether the run tracks the end of the log: its messages have commit LSNs.

    For change tables, extract asks the source itself (`landmarks`).
    """
    return isinstance(ctx.dialect, MessageDialect) and ctx.dialect.has_commit_lsns


def loads_are_judged(ctx: StageContext) -> bool:
    """Returns whether rows of the dialect's full loads have no position."""
    if isinstance(ctx.dialect, MessageDialect):
        return ctx.dialect.has_loads_without_position
    return ctx.dialect.has_rows_without_position


def lsns_are_judged(ctx: StageContext) -> bool:
    """Returns whether the dialect orders changes by LSNs that some sources do not write."""
    return isinstance(ctx.dialect, MessageDialect) and ctx.dialect.has_changes_without_lsn


def log_end(ctx: StageContext) -> LogEnd | None:
    return LogEnd.of_json(_counts(ctx).get(LOG_END))


def tables(ctx: StageContext) -> dict[str, frozenset[str]]:
    """Returns the published tables by key."""
    counts = _counts(ctx)
    return {key: frozenset(counts.get(key, ())) for key in (STREAMED, WITH_LSNS)}


def with_tables(ctx: StageContext, of_run: Mapping[str, set[str]]) -> dict[str, list[str]]:
    """Returns, by key, the published tables and those of the run."""
    return {key: sorted(published | of_run[key]) for key, published in tables(ctx).items()}


def _counts(ctx: StageContext) -> Mapping[str, Any]:
    """Returns the counts of the release that the run continues from; empty without one, as in a reset."""
    release = None if ctx.starts_over else ctx.control.releases.latest(ctx.feed.feed)
    return {} if release is None else release.counts
