"""Reset: loads a feed again from its source's beginning, beside what is published.

This only records the reset in the control store. The feed's next runs build their tables from nothing, on
branches that descend from main, until one run passes its audit. Its release makes these tables main.
"""

from __future__ import annotations

from changeledger.config.feed import Feed
from changeledger.control import AskedReset, ResetRow
from changeledger.lake.publishing import complete_releases
from changeledger.model.errors import ConfigError
from changeledger.stages.common.context import log
from changeledger.stages.maintenance.releasing import Session, by_hand


def ask(session: Session, feed: Feed, asked: AskedReset) -> ResetRow:
    """Records a reset for the feed's next run and returns it. Repeated after a crash, it is the same reset.

    Raises ConfigError if nothing is published; LeaseHeld while a run of the feed works.
    """
    with by_hand(feed) as control:
        complete_releases(session, control, feed.feed)
        if control.releases.latest(feed.feed) is None:
            raise ConfigError(
                f"the feed {feed.feed!r} has published nothing: there is nothing to reset",
                "run its DAG: its first run reads from the source's beginning",
            )
        row = control.resets.ask(feed.feed, asked)
        log.info("%s: reset %d: the next run reads from the source's beginning", feed.feed, row.id)
        return row


def withdraw(feed: Feed, by: str, reason: str) -> ResetRow:
    """Withdraws the waiting reset and returns it.

    Raises ConfigError if no reset waits; LeaseHeld while a run of the feed works.
    """
    with by_hand(feed) as control:
        row = control.resets.withdraw(feed.feed, by, reason)
    if row is None:
        raise ConfigError(
            f"the feed {feed.feed!r} has no waiting reset",
            f"`changeledger releases {feed.feed}` shows a reset that is published; `changeledger rollback` "
            "takes its release back",
        )
    return row
