"""How far the source's log has been read, as stored with the feed's releases."""

from __future__ import annotations

from changeledger.dialects.interface import MessageDialect
from changeledger.kernels.log_end import LogEnd
from changeledger.stages.common.context import StageContext

# Key in the counts of a release.
LOG_END = "log_end"


def are_judged(ctx: StageContext) -> bool:
    """Returns whether the run tracks the end of the log: its messages have commit LSNs.

    For change tables, extract asks the source itself (`landmarks`).
    """
    return isinstance(ctx.dialect, MessageDialect) and ctx.dialect.has_commit_lsns


def published(ctx: StageContext) -> LogEnd | None:
    """Returns the log end of the release that the run continues from; None without one, as in a reset."""
    release = None if ctx.starts_over else ctx.control.releases.latest(ctx.feed.feed)
    return None if release is None else LogEnd.of_json(release.counts.get(LOG_END))
