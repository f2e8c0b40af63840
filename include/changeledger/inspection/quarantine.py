"""The quarantine of a feed as people work with it: what is in it, and asking for records to be read again."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from changeledger.config import Feed, Settings
from changeledger.errors import ConfigError, LeaseHeld
from changeledger.stages.replaying import ask
from changeledger.storage import catalog, lake
from changeledger.storage.control import ControlStore

_HOLDER = "changeledger quarantine replay"
_LEASE_SECONDS = 600.0
_LOOK_SECONDS = 2.0


class Chosen(NamedTuple):
    """Which records are meant; None: whatever it is."""

    table: str | None = None
    reason: str | None = None
    run_id: str | None = None


def records(spark: SparkSession, feed: Feed, chosen: Chosen) -> DataFrame:
    """The published rows of `change.QUARANTINE_COLUMNS` that are meant. Raises ConfigError without a lake."""
    table = f"lake.{feed.namespace}.quarantine"
    if not catalog.exists(table):
        raise ConfigError(f"the feed {feed.feed!r} has published nothing yet", "run its DAG first")
    rows = lake.read(spark, table)
    for name, value in chosen._asdict().items():
        if value is not None:
            rows = rows.where(F.col(name) == value)
    return rows


def summary(rows: DataFrame) -> DataFrame:
    """By table and reason: how many records, the first and the last run that read them, an example."""
    return (
        rows.groupBy("table", "reason")
        .agg(
            F.count(F.lit(1)).alias("records"),
            F.min("run_id").alias("first run"),
            F.max("run_id").alias("last run"),
            F.min("detail").alias("for example"),
        )
        .orderBy(F.desc("records"), "table", "reason")
    )


def replay(spark: SparkSession, feed: Feed, chosen: Chosen, say: Callable[[str], object]) -> int:
    """Ask the next run to read the records again, as they came; returns how many are new on its list.

    Waits for a run of the feed that is at work, and says so.
    """
    settings = Settings()
    control = ControlStore(settings.control_url)
    rows = records(spark, feed, chosen)
    _await_lease(control, feed, say)
    try:
        return ask(spark, feed, rows)
    finally:
        control.release_lease(feed.feed, _HOLDER)


def _await_lease(control: ControlStore, feed: Feed, say: Callable[[str], object]) -> None:
    said = ""
    while True:
        try:
            control.acquire_lease(feed.feed, _HOLDER, _LEASE_SECONDS)
            return
        except LeaseHeld as held:
            # Its lease is renewed: that is no news.
            holder = held.message.partition(" until ")[0]
            if holder != said:
                say(f"waiting: {held.message} at the latest")
                said = holder
            time.sleep(_LOOK_SECONDS)
