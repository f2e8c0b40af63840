"""Pending messages: those that wait for others of later windows, such as parts of an event."""

from __future__ import annotations

from pyspark.sql import functions as F

from changeledger.kernels.arrow import table_schema
from changeledger.lake import catalog, iceberg, new_tables
from changeledger.lake.records import message_record
from changeledger.model import change
from changeledger.stages.common import input_records
from changeledger.stages.common.context import StageContext


def late(ctx: StageContext) -> frozenset[tuple[str, int, int]]:
    """Returns topic, partition and offset of messages that have waited longer than `pending_timeout`."""
    if ctx.window.request.partial or not input_records.some_wait(ctx):
        return frozenset()
    limit = ctx.window.end - ctx.feed.pending_timeout
    over = iceberg.read(ctx.spark, ctx.lake.pending).where(F.col("since") < F.lit(limit))
    return frozenset(tuple(row) for row in over.select("topic", "partition", "offset").collect())


def write(ctx: StageContext, some: bool) -> None:
    """Replaces the pending messages on the branch by those that wait after this window.

    A run of chosen tables has not read the earlier ones, so it only adds its own.
    `some`: whether any message of this run waits.
    """
    if not catalog.exists(ctx.lake.pending):
        if not some:
            return
        new_tables.create(ctx.lake.pending, table_schema(change.PENDING_COLUMNS))
    iceberg.fresh_branch(ctx.spark, ctx.lake.pending, ctx.branch)
    if not some and not input_records.some_wait(ctx):
        return
    earlier = iceberg.read(ctx.spark, ctx.lake.pending)
    now = (
        iceberg.read(ctx.spark, ctx.lake.dispositions, ctx.branch)
        .where((F.col("window_id") == ctx.id) & (F.col("disposition") == change.PENDING))
        .select("source_position", "table", "reason")
    )
    earlier = earlier.withColumn("source_position", message_record())
    before = earlier.select("source_position", "since")
    # Messages of the window, and pending ones of earlier windows.
    messages, waiting = input_records.raw(ctx, ctx.lake.raw), input_records.waiting(ctx)
    if waiting is not None:
        waiting = waiting.withColumn("window_id", F.lit(ctx.id))
        messages = messages.unionByName(waiting.select(*messages.columns))
    rows = messages.join(now, "source_position").join(before, "source_position", "left")
    columns = [name for name, _ in change.PENDING_COLUMNS]
    rows = rows.withColumn("since", F.coalesce("since", F.lit(ctx.window.end))).select(*columns)
    if ctx.window.request.partial:
        others = earlier.join(now.select("source_position"), "source_position", "left_anti")
        rows = rows.unionByName(others.select(*columns))
    iceberg.replace(rows, ctx.lake.pending, ctx.branch)
