"""What a run reads besides its window's records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, timedelta

from pyspark.sql import DataFrame, SparkSession

from changeledger.kernels.arrow import table_schema
from changeledger.lake import iceberg, new_tables
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
    """The table stays after its last message has left it, and each query of it costs as much as a stage."""
    ctx = _begun(spark, "waits", Request())
    assert input_records.waiting(ctx) is None
    new_tables.create(ctx.lake.pending, table_schema(change.PENDING_COLUMNS))
    assert input_records.waiting(ctx) is None
    iceberg.append(_pending(spark), ctx.lake.pending)
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
    iceberg.append(_pending(spark), ctx.lake.pending)
    waiting.write(ctx, some=False)
    assert stored_rows(ctx.lake.pending, ctx.branch) == stored_rows(ctx.lake.pending)


def test_a_message_waits_from_the_end_of_the_window_that_read_it(spark: SparkSession) -> None:
    """The start of a long window, as after an outage, may be longer ago than messages may wait."""
    ctx = _begun(spark, "begins", Request())
    said = {"topic": "'t'", "partition": "0", "offset": "7", "window_id": f"'{ctx.id}'"}
    iceberg.append(_row(spark, change.RAW_MESSAGE_COLUMNS, said), ctx.lake.raw)
    new_tables.create(ctx.lake.dispositions, table_schema(change.DISPOSITION_COLUMNS))
    iceberg.fresh_branch(spark, ctx.lake.dispositions, ctx.branch)
    place = "named_struct('source', 't', 'partition', 0, 'offset', 7L, 'row', NULL)"
    waits = {"window_id": f"'{ctx.id}'", "source_position": place, "disposition": f"'{change.PENDING}'"}
    iceberg.append(_row(spark, change.DISPOSITION_COLUMNS, waits), ctx.lake.dispositions, ctx.branch)
    waiting.write(ctx, some=True)
    (row,) = stored_rows(ctx.lake.pending, ctx.branch)
    assert row["since"].replace(tzinfo=UTC) == ctx.window.end


def test_a_run_of_chosen_tables_leaves_what_is_asked_for_again(spark: SparkSession) -> None:
    """The run does not read the requested records, so its release must not take them off the list."""
    of_chosen = Request(mode="window", tables=(CONTRACT.table,), run="manual__1")
    for name, request in (("asks", Request()), ("asks_not", of_chosen)):
        ctx = _begun(spark, name, request)
        new_tables.create(ctx.lake.replay_requests, table_schema(change.REPLAY_COLUMNS))
        iceberg.append(_row(spark, change.REPLAY_COLUMNS, {"window_id": "'w'"}), ctx.lake.replay_requests)
        ctx.open(lambda: (None, {}))
        assert (ctx.opened("extract").replay_snapshot is None) == request.partial
        assert (input_records.replayed(ctx) is None) == request.partial


def test_of_a_topic_that_was_made_again_the_record_in_quarantine_is_read(spark: SparkSession) -> None:
    """Another window read another record at that offset. Records replayed in vain have no such window."""
    ctx = _begun(spark, "made_again", Request())
    for run, offset in (("a", 5), ("b", 5), ("a", 6), ("b", 7)):
        said = {"topic": "'t'", "partition": "0", "offset": f"{offset}", "window_id": f"'{run}'"}
        iceberg.append(_row(spark, change.RAW_MESSAGE_COLUMNS, said), ctx.lake.raw)
    new_tables.create(ctx.lake.replay_requests, table_schema(change.REPLAY_COLUMNS))
    for run, offset in (("b", 5), ("a", 6), ("a replay", 7)):
        place = f"named_struct('source', 't', 'partition', 0, 'offset', {offset}L, 'row', NULL)"
        asked = {"window_id": f"'{run}'", "source_position": place}
        iceberg.append(_row(spark, change.REPLAY_COLUMNS, asked), ctx.lake.replay_requests)
    ctx.open(lambda: (None, {}))
    records = input_records.asked_again(ctx, ctx.lake.raw)
    assert records is not None
    assert {(row["window_id"], row["offset"]) for row in records.collect()} == {("b", 5), ("a", 6), ("b", 7)}


def _begun(spark: SparkSession, name: str, request: Request) -> StageContext:
    """Begins a run of a feed that has a table of raw messages."""
    feed = feed_of(name, CONTRACT)
    over = Window(start=BEGIN, end=BEGIN + timedelta(hours=1), request=request)
    lease = take_lease(feed, over)
    assert lease is not None
    ctx = StageContext.begin(lambda: spark, Workers(lambda: spark), feed, over, lease)
    assert ctx is not None
    ctx.control.windows.open(feed.feed, over, None, {})
    new_tables.create(feed.lake.raw, table_schema(change.RAW_MESSAGE_COLUMNS), change.RAW_PARTITIONS)
    return ctx


def _pending(spark: SparkSession) -> DataFrame:
    """Returns one pending message."""
    return _row(spark, change.PENDING_COLUMNS, {"topic": "'t'", "partition": "0", "offset": "7"})


def _row(spark: SparkSession, columns: Sequence[tuple[str, str]], known: Mapping[str, str]) -> DataFrame:
    """Returns one row. `known`: SQL of the columns that are not NULL."""
    cells = ((known.get(name, "NULL"), kind, name) for name, kind in columns)
    return spark.sql("SELECT " + ", ".join(f"CAST({text} AS {kind}) `{name}`" for text, kind, name in cells))
