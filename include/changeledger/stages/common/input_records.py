"""What a run reads: the raw records of its window, those that wait, those asked for again, and repairs."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from changeledger.lake import catalog, iceberg, scans
from changeledger.lake.records import message_record
from changeledger.stages.common.context import StageContext


def raw_records(ctx: StageContext) -> DataFrame:
    """The `source_position`s of what the run accounts for: new, asked for again, pending, and repairs."""
    frames = [raw(ctx, table) for table in ctx.raws]
    frames += [more for more in (waiting(ctx), planned(ctx)) if more is not None]
    return iceberg.union([rows.select("source_position") for rows in frames])


def raw(ctx: StageContext, table: str) -> DataFrame:
    """The raw records that the run reads, with `source_position`: of its window, and asked for again."""
    new, again = _new(ctx, table), asked_again(ctx, table)
    return new if again is None else new.unionByName(again.select(*new.columns))


def _new(ctx: StageContext, table: str) -> DataFrame:
    return _rows(ctx, table).where(F.col("window_id") == ctx.id)


def _rows(ctx: StageContext, table: str) -> DataFrame:
    rows = iceberg.read(ctx.spark, table)
    return rows if "source_position" in rows.columns else rows.withColumn("source_position", message_record())


def asked_again(ctx: StageContext, table: str) -> DataFrame | None:
    """The raw records that are asked for again, except those of the window; None if none are."""
    asked = replayed(ctx)
    if asked is None:
        return None
    for name in ctx.names:
        if table == ctx.names[name].raw:
            asked = asked.where(F.col("table") == name)
    return _not_read(_again(_rows(ctx, table), asked), _new(ctx, table))


def _again(rows: DataFrame, asked: DataFrame) -> DataFrame:
    """The raw rows of the records that are asked for, each once: windows may overlap.

    Of the run that has it in quarantine: at an offset of a topic that was made again others have read another
    record. One that was in quarantine before its replay is there by the run that replayed it, and raw has it
    by the one that read it first: such a one is looked for in all of raw.
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
    """Messages that earlier windows have left to wait, with `source_position`; None if there are none.

    They may be of any table, so a run over some leaves them alone.
    """
    if ctx.window.request.partial or not some_wait(ctx):
        return None
    waiting = iceberg.read(ctx.spark, ctx.lake.pending).withColumn("source_position", message_record())
    return _not_read(waiting, raw(ctx, ctx.lake.raw))


def some_wait(ctx: StageContext) -> bool:
    """Have earlier windows left messages to wait? The table stays when its last message has left it."""
    return catalog.exists(ctx.lake.pending) and scans.has_rows(ctx.lake.pending)


def replayed(ctx: StageContext) -> DataFrame | None:
    """The records asked for again; None if there are none."""
    if ctx.window.request.partial:
        return None
    listed = ctx.opened("extract").replay_snapshot
    if listed is None or not scans.has_rows(ctx.lake.replay_requests, snapshot=listed):
        return None
    return iceberg.read(ctx.spark, ctx.lake.replay_requests, snapshot=listed)


def planned(ctx: StageContext) -> DataFrame | None:
    """The repairs that the run applies; None if it is a run of another kind."""
    if ctx.window.request.mode != "repair":
        return None
    return iceberg.read(ctx.spark, ctx.lake.applied_repairs).where(F.col("window_id") == ctx.id)


def nothing_new(ctx: StageContext) -> bool:
    """Has the window no record of its own, does nothing wait, and is nothing asked for again?

    Asked without Spark: this is an idle window's whole work.
    """
    request = ctx.window.request
    if request.mode == "repair" or ctx.has_raw_rows():
        return False
    return (request.partial or not some_wait(ctx)) and replayed(ctx) is None


def _not_read(few: DataFrame, new: DataFrame) -> DataFrame:
    """`few` without the records that the window has read itself: windows may overlap."""
    read = new.select("source_position").join(
        F.broadcast(few.select("source_position")), "source_position", "left_semi"
    )
    return few.join(read, "source_position", "left_anti")
