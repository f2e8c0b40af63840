"""Completes a release by hand if a stage could not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from changeledger.config.feed import Feed
from changeledger.config.settings import Settings
from changeledger.control import LEASE_SECONDS, ControlStore, lease_heartbeat
from changeledger.lake.publishing import complete
from changeledger.stages.common.context import control_store

# Returns the Spark session; started only if needed.
Session = Callable[[], SparkSession]
# Shared lease holder of `release complete`, `rollback` and `reset`: each can continue after another died.
_BY_HAND = "changeledger release complete, rollback or reset"


@contextmanager
def by_hand(feed: Feed) -> Iterator[ControlStore]:
    """Provides the control store while it holds the feed's lease. After an error the lease expires by itself.

    Raises LeaseHeld while a run of the feed works.
    """
    control = control_store(Settings())
    control.leases.acquire(feed.feed, _BY_HAND, LEASE_SECONDS)
    with lease_heartbeat(control.leases, feed.feed, _BY_HAND):
        yield control
    control.leases.release(feed.feed, _BY_HAND)


def complete_by_hand(spark: SparkSession, feed: Feed, *, force: bool) -> list[int]:
    """Completes the releases that were committed but not completed. Returns their ids.

    Raises LeaseHeld while a run of the feed works. Raises ReleaseStuck if somebody else has written a
    published table, unless `force` is set.
    """
    with by_hand(feed) as control:
        waiting = control.releases.incomplete(feed.feed)
        for release in waiting:
            complete(lambda: spark, control, release, force=force)
    return [release.id for release in waiting]
