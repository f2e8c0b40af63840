"""What a run reads besides its window's records."""

from __future__ import annotations

from datetime import UTC, timedelta

from pyspark.sql import SparkSession

from changeledger.kernels.arrow import table_schema
from changeledger.lake import iceberg, new_tables
from changeledger.model import change
from changeledger.model.window import Request, Window
from changeledger.stages.common import input_records
from changeledger.stages.common.context import StageContext
from changeledger.stages.normalization import waiting
from tests.audit.tables import CONTRACT
from tests.feeds import feed_of
from tests.ledger_windows import BEGIN, begun
from tests.stored_rows import append_rows, message, stored_rows


def test_a_table_of_pending_messages_without_any_is_read_by_nobody(spark: SparkSession) -> None:
    """The table stays after its last message has left it, and each query of it costs as much as a stage."""
    ctx = _begun(spark, "waits", Request())
    assert input_records.waiting(ctx) is None
    new_tables.create(ctx.lake.pending, table_schema(change.PENDING_COLUMNS))
    assert input_records.waiting(ctx) is None
    append_rows(ctx.lake.pending, change.PENDING_COLUMNS, [message("earlier", 7)])
    messages = input_records.waiting(ctx)
    assert messages is not None
    assert [row["offset"] for row in messages.collect()] == [7]
    iceberg.replace(spark.table(ctx.lake.pending).where("false"), ctx.lake.pending, "main")
    assert input_records.waiting(ctx) is None


def test_a_run_of_chosen_tables_leaves_what_waits(spark: SparkSession) -> None:
    ctx = _begun(spark, "leaves", Request(mode="window", tables=(CONTRACT.table,), run="manual__1"))
    new_tables.create(ctx.lake.dispositions, table_schema(change.DISPOSITION_COLUMNS))
    iceberg.fresh_branch(spark, ctx.lake.dispositions, ctx.branch)
    new_tables.create(ctx.lake.pending, table_schema(change.PENDING_COLUMNS))
    append_rows(ctx.lake.pending, change.PENDING_COLUMNS, [message("earlier", 7)])
    waiting.write(ctx, some=False)
    assert stored_rows(ctx.lake.pending, ctx.branch) == stored_rows(ctx.lake.pending)


def test_a_message_waits_from_the_end_of_the_window_that_read_it(spark: SparkSession) -> None:
    """The start of a long window, as after an outage, may be longer ago than messages may wait."""
    ctx = _begun(spark, "begins", Request())
    append_rows(ctx.lake.raw, change.RAW_MESSAGE_COLUMNS, [message(ctx.id, 7)])
    new_tables.create(ctx.lake.dispositions, table_schema(change.DISPOSITION_COLUMNS))
    iceberg.fresh_branch(spark, ctx.lake.dispositions, ctx.branch)
    waits = {**message(ctx.id, 7), "disposition": change.PENDING}
    append_rows(ctx.lake.dispositions, change.DISPOSITION_COLUMNS, [waits], ctx.branch)
    waiting.write(ctx, some=True)
    (row,) = stored_rows(ctx.lake.pending, ctx.branch)
    assert row["since"].replace(tzinfo=UTC) == ctx.window.end


def test_a_run_of_chosen_tables_leaves_what_is_asked_for_again(spark: SparkSession) -> None:
    """The run does not read the requested records, so its release must not take them off the list."""
    of_chosen = Request(mode="window", tables=(CONTRACT.table,), run="manual__1")
    for name, request in (("asks", Request()), ("asks_not", of_chosen)):
        ctx = _begun(spark, name, request)
        new_tables.create(ctx.lake.replay_requests, table_schema(change.REPLAY_COLUMNS))
        append_rows(ctx.lake.replay_requests, change.REPLAY_COLUMNS, [{"window_id": "w"}])
        ctx.open(lambda: (None, {}))
        assert (ctx.opened("extract").replay_snapshot is None) == request.partial
        assert (input_records.replayed(ctx) is None) == request.partial


def test_of_a_topic_that_was_made_again_the_record_in_quarantine_is_read(spark: SparkSession) -> None:
    """Another window read another record at that offset. Records replayed in vain have no such window."""
    ctx = _begun(spark, "made_again", Request())
    raw = [message(run, offset) for run, offset in (("a", 5), ("b", 5), ("a", 6), ("b", 7))]
    append_rows(ctx.lake.raw, change.RAW_MESSAGE_COLUMNS, raw)
    new_tables.create(ctx.lake.replay_requests, table_schema(change.REPLAY_COLUMNS))
    asked = [message(run, offset) for run, offset in (("b", 5), ("a", 6), ("a replay", 7))]
    append_rows(ctx.lake.replay_requests, change.REPLAY_COLUMNS, asked)
    ctx.open(lambda: (None, {}))
    records = input_records.asked_again(ctx, ctx.lake.raw)
    assert records is not None
    assert {(row["window_id"], row["offset"]) for row in records.collect()} == {("b", 5), ("a", 6), ("b", 7)}


def _begun(spark: SparkSession, name: str, request: Request) -> StageContext:
    """Begins a run of a feed that has a table of raw messages."""
    over = Window(start=BEGIN, end=BEGIN + timedelta(hours=1), request=request)
    ctx = begun(spark, feed_of(name, CONTRACT.table), over)
    new_tables.create(ctx.lake.raw, table_schema(change.RAW_MESSAGE_COLUMNS), change.RAW_PARTITIONS)
    return ctx
