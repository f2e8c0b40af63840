"""Extract: the window's records, as received, into raw tables.

The window is resolved once into positions of the source, and stored: a retry reads the same records and
writes the same partition, so it adds nothing. It begins where the last release ended, or earlier, when
it is a window of the past that is run again.
"""

from __future__ import annotations

from changeledger.dialects.base import MessageDialect
from changeledger.stages import repairing, replaying
from changeledger.stages.extract_messages import extract_messages
from changeledger.stages.extract_tables import extract_tables
from changeledger.stages.run import Run, log, stage_of_source


@stage_of_source
def run(this: Run) -> bool:
    """Whether it has found anything for the other stages.

    Raises GapError where records behind the last release are gone, SourceUnavailable, LeaseHeld.
    """
    this.control.keep_request(this.feed.feed, this.window)
    if this.window.request.mode == "replay":
        replaying.ask_for_all(this)
    if this.window.request.mode == "repair":
        repairing.take(this)
    if isinstance(this.dialect, MessageDialect):
        extract_messages(this)
    else:
        extract_tables(this)
    if not this.nothing_new():
        return True
    _close(this)
    return False


def _close(this: Run) -> None:
    """Record that the feed is read up to the window's end, so that the other stages need not run.

    Nothing is lost by it: no record lies between the positions. A dry run records nothing.
    """
    feed, window = this.feed.feed, this.window
    if not window.request.dry_run:
        position = this.opened("extract").to_position
        this.control.close_empty(feed, window, position)
    this.control.release_lease(feed, window.holder)
    log.info("%s: the window %s has nothing new: the feed is read up to its end", feed, window.id)
