"""The decorator of stages: holds the feed's lease, and starts Spark when it is needed."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Protocol

from pyspark.sql import SparkSession

from changeledger.config.feed import Feed
from changeledger.control import lease_heartbeat
from changeledger.model.window import Window
from changeledger.spark import failures
from changeledger.spark.rows import Workers
from changeledger.spark.session import for_small_data
from changeledger.stages.common.context import MOST_ROWS, HeldLease, StageContext, take_lease

# A session, or a function that starts one.
Session = SparkSession | Callable[[], SparkSession]


class Stage(Protocol):
    """A stage as its callers call it.

    `lease`: the lease that the caller holds; without it the stage takes the lease itself.
    Returns False if there is nothing left to do for the window.
    """

    def __call__(
        self, session: Session, feed: Feed, window: Window, lease: HeldLease | None = None
    ) -> bool | None: ...


def stage(work: Callable[[StageContext], bool | None]) -> Stage:
    """Decorates a stage's function: `work` runs while the process holds the feed's lease."""

    @wraps(work)
    def run(session: Session, feed: Feed, window: Window, lease: HeldLease | None = None) -> bool | None:
        held = lease or take_lease(feed, window)
        if held is None:
            return False

        @cache
        def prepared() -> SparkSession:
            received = sum(read.received for read in held.control.sources.reads(feed.feed, window.id))
            spark = session() if callable(session) else session
            for_small_data(spark, small=received <= MOST_ROWS)
            return spark

        with (
            lease_heartbeat(held.control.leases, feed.feed, window.holder),
            failures.named(feed.connection),
            Workers(prepared) as workers,
        ):
            ctx = StageContext.begin(prepared, workers, feed, window, held)
            return work(ctx) if ctx is not None else False

    return run
