"""Removes raw rows that are no longer needed, by the run that has read them."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from changeledger.config.feed import Feed
from changeledger.control import ControlStore, standing
from changeledger.lake import catalog, iceberg, refs, upkeep
from changeledger.lake.records import message_record


def standing_runs(control: ControlStore, feed: str) -> set[str]:
    """Returns the runs whose records are published: released, neither taken back nor before a reset."""
    releases = control.releases.of_feed(feed)
    stand = standing(releases)
    begun = max((row.release for row in control.resets.of_feed(feed) if row.release in stand), default=0)
    return {row.window_id for row in releases if row.id in stand and row.id >= begun}


def trim_raw(spark: SparkSession, feed: Feed, windows: Sequence[str]) -> int:
    """Removes the raw rows of these windows, except those that may be read again.

    These are quarantined records, and pending ones, which may become quarantined; also those that were either
    in a release to which a rollback can return. Returns how many runs have lost rows.
    """
    tables = catalog.existing([feed.lake.raw, *(names.raw for names in feed.names.values())])
    if not windows or not tables:
        return 0
    needed, changed = _needed(spark, feed), 0
    for raw in tables:
        runs = upkeep.runs_of(spark, raw)
        old = [window for window in windows if window in runs]
        kept_rows = _kept(spark, raw, old, needed) if needed is not None and old else {}
        changed += upkeep.retain_only(spark, raw, old, kept_rows)
    return changed


def _needed(spark: SparkSession, feed: Feed) -> DataFrame | None:
    """Returns positions and runs of records that may be read again. Pending messages have no run."""
    tables = catalog.existing([feed.lake.quarantine, feed.lake.pending])
    records = []
    for table, snapshot in ((name, at) for name in tables for at in refs.with_all_rows(name)):
        rows = iceberg.read(spark, table, snapshot=snapshot)
        if table == feed.lake.pending:
            rows = rows.withColumn("source_position", message_record())
            rows = rows.withColumn("window_id", F.lit(None).cast("string"))
        records.append(rows.select("source_position", "window_id"))
    return iceberg.union(records).distinct() if records else None


def _kept(spark: SparkSession, raw: str, runs: Sequence[str], needed: DataFrame) -> dict[str, DataFrame]:
    """Returns the raw rows that are among the `needed`, by run.

    Keeps a record both of the run that has it in quarantine and of the run that read it first. After a
    replay these are different runs; in a recreated topic two runs have different records at one offset.
    """
    rows = iceberg.read(spark, raw).where(F.col("window_id").isin(*runs))
    names = rows.columns
    if "source_position" not in names:
        rows = rows.withColumn("source_position", message_record())
    rows = rows.join(F.broadcast(needed.select("source_position")), "source_position", "left_semi")
    first = rows.groupBy("source_position").agg(F.min("window_id").alias("window_id"))
    kept = F.broadcast(first.unionByName(needed))
    rows = rows.join(kept, ["source_position", "window_id"], "left_semi").select(*names)
    with_some = [row["window_id"] for row in rows.select("window_id").distinct().collect()]
    return {run: rows.where(F.col("window_id") == run) for run in with_some}
