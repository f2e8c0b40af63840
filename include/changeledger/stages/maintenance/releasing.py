"""Completing a release by hand, where a stage could not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from changeledger.config.feed import Feed
from changeledger.config.settings import Settings
from changeledger.control import LEASE_SECONDS, ControlStore, lease_heartbeat
from changeledger.lake.publishing import complete
from changeledger.stages.common.context import control_store

# Gives Spark where it is needed.
Session = Callable[[], SparkSession]
# Of `release complete`, `rollback` and `reset`: one continues where the other one has died.
_BY_HAND = "changeledger release complete, rollback or reset"


@contextmanager
def by_hand(feed: Feed) -> Iterator[ControlStore]:
    """The control store, while the feed's lease is held; after an error it ends by itself.

    Raises LeaseHeld while a run of the feed works.
    """
    control = control_store(Settings())
    control.leases.acquire(feed.feed, _BY_HAND, LEASE_SECONDS)
    with lease_heartbeat(control.leases, feed.feed, _BY_HAND):
        yield control
    control.leases.release(feed.feed, _BY_HAND)


def complete_by_hand(spark: SparkSession, feed: Feed, *, force: bool) -> list[int]:
    """The releases that were committed and not completed are completed; returns them.

    Raises LeaseHeld while a run of the feed works; ReleaseStuck, without `force`, where somebody else has
    written a published table.
    """
    with by_hand(feed) as control:
        waiting = control.releases.incomplete(feed.feed)
        for release in waiting:
            complete(lambda: spark, control, release, force=force)
    return [release.id for release in waiting]
