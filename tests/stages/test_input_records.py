"""What a run reads beside its window's records."""

from __future__ import annotations

from datetime import timedelta

from pyspark.sql import DataFrame, SparkSession

from changeledger.lake import iceberg
from changeledger.model import change
from changeledger.model.window import Request, Window
from changeledger.spark.rows import Workers
from changeledger.stages.common import input_records
from changeledger.stages.common.context import StageContext, take_lease
from changeledger.stages.normalization import waiting
from tests.audit.tables import CONTRACT
from tests.ledger_windows import BEGIN, feed_of
from tests.stored_rows import stored_rows


def test_a_table_of_pending_messages_without_any_is_read_by_nobody(spark: SparkSession) -> None:
    """It stays when the last message has left it; each query of it costs a window as much as a stage."""
    ctx = _begun(spark, "waits", Request())
    assert input_records.waiting(ctx) is None
    iceberg.create(spark, ctx.lake.pending, change.PENDING_COLUMNS)
    assert input_records.waiting(ctx) is None
    iceberg.append(_pending(spark), ctx.lake.pending)
    messages = input_records.waiting(ctx)
    assert messages is not None
    assert [row["offset"] for row in messages.collect()] == [7]
    iceberg.replace(spark.table(ctx.lake.pending).where("false"), ctx.lake.pending, "main")
    assert input_records.waiting(ctx) is None


def test_a_run_of_chosen_tables_leaves_what_waits(spark: SparkSession) -> None:
    ctx = _begun(spark, "leaves", Request(mode="window", tables=(CONTRACT.table,), run="manual__1"))
    iceberg.create(spark, ctx.lake.dispositions, change.DISPOSITION_COLUMNS)
    iceberg.fresh_branch(spark, ctx.lake.dispositions, ctx.branch)
    iceberg.create(spark, ctx.lake.pending, change.PENDING_COLUMNS)
    iceberg.append(_pending(spark), ctx.lake.pending)
    waiting.write(ctx, some=False)
    assert stored_rows(ctx.lake.pending, ctx.branch) == stored_rows(ctx.lake.pending)


def _begun(spark: SparkSession, name: str, request: Request) -> StageContext:
    """A run of a feed that has a table of raw messages."""
    feed = feed_of(name, CONTRACT)
    over = Window(start=BEGIN, end=BEGIN + timedelta(hours=1), request=request)
    lease = take_lease(feed, over)
    assert lease is not None
    ctx = StageContext.begin(lambda: spark, Workers(lambda: spark), feed, over, lease)
    assert ctx is not None
    ctx.control.windows.open(feed.feed, over, None, {})
    iceberg.create(spark, feed.lake.raw, change.RAW_MESSAGE_COLUMNS, ("window_id", "topic"))
    return ctx


def _pending(spark: SparkSession) -> DataFrame:
    """One message."""
    known = {"topic": "'t'", "partition": "0", "offset": "7"}
    cells = ((known.get(name, "NULL"), kind, name) for name, kind in change.PENDING_COLUMNS)
    return spark.sql("SELECT " + ", ".join(f"CAST({text} AS {kind}) `{name}`" for text, kind, name in cells))
