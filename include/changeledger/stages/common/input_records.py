"""The input of a run: raw records of its window, pending records, records to replay, and repairs."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from changeledger.lake import catalog, iceberg, scans
from changeledger.lake.records import message_record
from changeledger.stages.common.context import StageContext


def raw_records(ctx: StageContext) -> DataFrame:
    """Returns the `source_position`s of all that the run accounts for: new, replayed, pending and repairs."""
    frames = [raw(ctx, table) for table in ctx.raws]
    frames += [more for more in (waiting(ctx), planned(ctx)) if more is not None]
    return iceberg.union([rows.select("source_position") for rows in frames])


def raw(ctx: StageContext, table: str) -> DataFrame:
    """Returns the raw records of the window and those to replay, with `source_position`."""
    new, again = _new(ctx, table), asked_again(ctx, table)
    return new if again is None else new.unionByName(again.select(*new.columns))


def _new(ctx: StageContext, table: str) -> DataFrame:
    return _rows(ctx, table).where(F.col("window_id") == ctx.id)


def _rows(ctx: StageContext, table: str) -> DataFrame:
    rows = iceberg.read(ctx.spark, table)
    return rows if "source_position" in rows.columns else rows.withColumn("source_position", message_record())


def asked_again(ctx: StageContext, table: str) -> DataFrame | None:
    """Returns the raw records to replay, except those of the window itself. None if nothing is to replay."""
    asked = replayed(ctx)
    if asked is None:
        return None
    for name in ctx.names:
        if table == ctx.names[name].raw:
            asked = asked.where(F.col("table") == name)
    return _not_read(_again(_rows(ctx, table), asked), _new(ctx, table))


def _again(rows: DataFrame, asked: DataFrame) -> DataFrame:
    """Returns the raw rows of the requested records, each once, since windows may overlap.

    A record is taken from the window that has it in quarantine: if its topic was recreated, other windows
    have read another record at the same offset. A record that a replay has quarantined again is there under
    the replaying window, while raw has it under the window that read it first, so all of raw is searched.
    """
    wanted = asked.select("window_id", "source_position").distinct()
    runs = [row["window_id"] for row in asked.select("window_id").distinct().collect()]
    of_runs = rows.where(F.col("window_id").isin(runs))
    own = of_runs.join(F.broadcast(wanted), ["window_id", "source_position"], "left_semi")
    others = wanted.select("source_position").join(own, "source_position", "left_anti")
    if not others.isEmpty():
        own = own.unionByName(rows.join(F.broadcast(others), "source_position", "left_semi"))
    return own.dropDuplicates(["source_position"])


def waiting(ctx: StageContext) -> DataFrame | None:
    """Returns the pending messages of earlier windows, with `source_position`. None if there are none.

    They may be of any table, so a run of chosen tables does not read them.
    """
    if ctx.window.request.partial or not some_wait(ctx):
        return None
    waiting = iceberg.read(ctx.spark, ctx.lake.pending).withColumn("source_position", message_record())
    return _not_read(waiting, raw(ctx, ctx.lake.raw))


def some_wait(ctx: StageContext) -> bool:
    """Returns whether earlier windows have left pending messages. The table may exist and be empty."""
    return catalog.exists(ctx.lake.pending) and scans.has_rows(ctx.lake.pending)


def replayed(ctx: StageContext) -> DataFrame | None:
    """Returns the requests of records to replay; None if there are none."""
    if ctx.window.request.partial:
        return None
    listed = ctx.opened("extract").replay_snapshot
    if listed is None or not scans.has_rows(ctx.lake.replay_requests, snapshot=listed):
        return None
    return iceberg.read(ctx.spark, ctx.lake.replay_requests, snapshot=listed)


def planned(ctx: StageContext) -> DataFrame | None:
    """Returns the repairs that the run applies; None if its mode is not `repair`."""
    if ctx.window.request.mode != "repair":
        return None
    return iceberg.read(ctx.spark, ctx.lake.applied_repairs).where(F.col("window_id") == ctx.id)


def nothing_new(ctx: StageContext) -> bool:
    """Returns whether the run has nothing to read: no raw, pending or replayed records, and no repairs.

    Needs no Spark: this is all that an idle window does.
    """
    request = ctx.window.request
    if request.mode == "repair" or ctx.has_raw_rows():
        return False
    return (request.partial or not some_wait(ctx)) and replayed(ctx) is None


def _not_read(few: DataFrame, new: DataFrame) -> DataFrame:
    """Returns `few` without the records that the window has read itself, since windows may overlap."""
    read = new.select("source_position").join(
        F.broadcast(few.select("source_position")), "source_position", "left_semi"
    )
    return few.join(read, "source_position", "left_anti")
