"""How far the log of a run's source is read, as the feed's releases keep it."""

from __future__ import annotations

from changeledger.dialects.interface import MessageDialect
from changeledger.kernels.log_end import LogEnd
from changeledger.stages.common.context import StageContext

# In the counts of a release.
LOG_END = "log_end"


def are_judged(ctx: StageContext) -> bool:
    """Do messages have LSNs of commits? Of change tables extract asks the source itself (`landmarks`)."""
    return isinstance(ctx.dialect, MessageDialect) and ctx.dialect.has_commit_lsns


def published(ctx: StageContext) -> LogEnd | None:
    """The end of what the run goes on from; None if there is nothing, or it starts over."""
    release = None if ctx.starts_over else ctx.control.releases.latest(ctx.feed.feed)
    return None if release is None else LogEnd.of_json(release.counts.get(LOG_END))
