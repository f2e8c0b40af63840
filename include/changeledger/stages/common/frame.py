"""The frame of a stage: a run that holds its feed's lease, with Spark where it is needed."""

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

# A session, or what starts one.
Session = SparkSession | Callable[[], SparkSession]


class Stage(Protocol):
    """`lease`: what the caller has taken already; without it the stage takes it.

    False when nothing is left to do for the window.
    """

    def __call__(
        self, session: Session, feed: Feed, window: Window, lease: HeldLease | None = None
    ) -> bool | None: ...


def stage(work: Callable[[StageContext], bool | None]) -> Stage:
    """The frame of a stage: `work` on a run that holds its feed's lease meanwhile."""

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
