"""Extract: writes the window's records, as received, into raw tables.

The window is resolved into positions of the source once, and stored: a retry reads the same records and
writes the same partition, so it adds nothing. Only if the source has lost some of the records, the window is
resolved again. It begins where the last release ended, or earlier if it is a past window that runs again.
The end of the stage is stored last, and the later stages require it.
"""

from __future__ import annotations

from changeledger.dialects.interface import MessageDialect
from changeledger.stages.common import input_records
from changeledger.stages.common.context import StageContext, log
from changeledger.stages.common.frame import stage
from changeledger.stages.extraction import erased, replaying, resetting
from changeledger.stages.extraction.messages import extract_messages
from changeledger.stages.extraction.same_sources import require_dialect
from changeledger.stages.extraction.tables import extract_tables
from changeledger.stages.normalization import repairing


@stage
def run(ctx: StageContext) -> bool:
    """Returns whether the later stages have anything to do.

    Raises SourceDataLostError if records behind the last release are gone, or a reset would lose what they
    were; ConfigError, SourceUnavailable, LeaseHeld.
    """
    resetting.require_all_tables(ctx)
    if not ctx.starts_over:
        require_dialect(ctx.control, ctx.feed)
    ctx.control.windows.keep_request(ctx.feed.feed, ctx.window)
    if ctx.window.request.mode == "replay":
        replaying.ask_for_all(ctx)
    if ctx.window.request.mode == "repair":
        repairing.take(ctx)
    if isinstance(ctx.dialect, MessageDialect):
        extract_messages(ctx)
    else:
        extract_tables(ctx)
    erased.warn(ctx)
    ctx.finish("extract", ())
    # If records were expected and none came, the window is not empty: the audit has to stop it.
    is_incomplete = any(read.problem for read in ctx.control.sources.reads(ctx.feed.feed, ctx.window.id))
    if is_incomplete or not input_records.nothing_new(ctx):
        return True
    resetting.require_records(ctx)
    _close(ctx)
    return False


def _close(ctx: StageContext) -> None:
    """Records that the feed has been read up to the window's end, so that the later stages need not run.

    No record lies between the positions, so nothing is lost. A dry run records nothing.
    """
    feed, window = ctx.feed.feed, ctx.window
    if not window.request.dry_run:
        position = ctx.opened("extract").to_position
        ctx.control.windows.close_empty(feed, window, position)
    ctx.control.leases.release(feed, window.holder)
    log.info("%s: the window %s has nothing new: the feed is read up to its end", feed, window.id)
