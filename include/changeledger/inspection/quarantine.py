"""The quarantine of a feed as people work with it: what is in it, and asking for records to be read again."""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from changeledger.config import Feed, Settings
from changeledger.errors import ConfigError
from changeledger.stages.replaying import ask
from changeledger.storage import lake
from changeledger.storage.control import ControlStore

_HOLDER = "changeledger quarantine replay"
_LEASE_SECONDS = 600.0


class Chosen(NamedTuple):
    """Which records are meant; None: whatever it is."""

    table: str | None = None
    reason: str | None = None
    run_id: str | None = None


def records(spark: SparkSession, feed: Feed, chosen: Chosen) -> DataFrame:
    """The published rows of `change.QUARANTINE_COLUMNS` that are meant. Raises ConfigError without a lake."""
    table = f"lake.{feed.namespace}.quarantine"
    if not lake.exists(spark, table):
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


def replay(spark: SparkSession, feed: Feed, chosen: Chosen) -> int:
    """Ask the next run to read the records again, as they came; returns how many are new on its list.

    Raises LeaseHeld while a run of the feed is at work.
    """
    settings = Settings()
    control = ControlStore(settings.control_url)
    rows = records(spark, feed, chosen)
    control.acquire_lease(feed.feed, _HOLDER, _LEASE_SECONDS)
    try:
        return ask(spark, feed, rows)
    finally:
        control.release_lease(feed.feed, _HOLDER)
