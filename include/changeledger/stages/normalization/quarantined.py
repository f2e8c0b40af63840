"""Keeps each record in quarantine once: under the run that has read it last."""

from __future__ import annotations

from pyspark.sql import functions as F

from changeledger.control import furthest
from changeledger.dialects.interface import TableDialect
from changeledger.lake import iceberg, scans
from changeledger.model import change
from changeledger.stages.common import input_records
from changeledger.stages.common.context import StageContext


def forget_read_again(ctx: StageContext) -> None:
    """Removes records that the run has read again, by a replay or otherwise, from earlier runs' quarantine.

    Keeps records of tables that the run did not choose. Does not change the replay list, which belongs to no
    release: publish removes from it what the run has read.
    """
    if not ctx.raws or not scans.has_rows(ctx.lake.quarantine) or not _reads_again(ctx):
        return
    earlier = iceberg.read(ctx.spark, ctx.lake.quarantine).select("window_id", "source_position")
    read = iceberg.union([input_records.raw(ctx, raw).select("source_position") for raw in ctx.raws])
    again = earlier.where(F.col("window_id") != ctx.id).join(read, "source_position", "left_semi")
    if ctx.window.request.partial:
        said = iceberg.read(ctx.spark, ctx.lake.dispositions, ctx.branch).where(F.col("window_id") == ctx.id)
        passed_over = said.where(F.col("reason") == change.TABLE_NOT_CHOSEN).select("source_position")
        again = again.join(passed_over, "source_position", "left_anti")
    iceberg.delete_records(again, ctx.lake.quarantine, ctx.branch)


def _reads_again(ctx: StageContext) -> bool:
    """Returns whether the run may have read records that an earlier run has read."""
    begin = ctx.opened("normalize").from_position or {}
    return (
        ctx.starts_over
        or (isinstance(ctx.dialect, TableDialect) and ctx.dialect.has_rows_without_position)
        or input_records.replayed(ctx) is not None
        or furthest(ctx.released, begin) != begin
    )
