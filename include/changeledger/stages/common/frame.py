"""The frame of a stage: a run that holds its feed's lease, with Spark where it is needed."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import TypeVar

from pyspark.sql import SparkSession

from changeledger.config.feed import Feed
from changeledger.config.settings import Settings
from changeledger.control import lease_heartbeat
from changeledger.model.window import Window
from changeledger.stages.common.context import MOST_ROWS, StageContext, control_store
from changeledger.storage import failures
from changeledger.storage.session import for_small_data

Result = TypeVar("Result")

# A session, or what starts one.
Session = SparkSession | Callable[[], SparkSession]
Stage = Callable[[Session, Feed, Window], Result | None]


def stage(work: Callable[[StageContext], Result]) -> Stage[Result]:
    """The frame of a stage: `work` on a run that holds its feed's lease meanwhile.

    It gives None without work when nothing is left to do for the window.
    """

    @wraps(work)
    def started(ctx: StageContext) -> Result:
        # Expressions cannot be built before there is a session.
        _ = ctx.spark
        return work(ctx)

    return stage_of_source(started)


def stage_of_source(work: Callable[[StageContext], Result]) -> Stage[Result]:
    """The frame of the stage that asks the source: it starts Spark itself, where there is something new."""

    @wraps(work)
    def run(session: Session, feed: Feed, window: Window) -> Result | None:
        @cache
        def prepared() -> SparkSession:
            received = sum(read.received for read in control_store(Settings()).reads(feed.feed, window))
            spark = session() if callable(session) else session
            for_small_data(spark, small=received <= MOST_ROWS)
            return spark

        with failures.named(feed.connection):
            ctx = StageContext.begin(prepared, feed, window)
        if ctx is None:
            return None
        with lease_heartbeat(ctx.control, feed.feed, window.holder), failures.named(feed.connection):
            return work(ctx)

    return run
