"""What a run reads beside its window's records."""

from __future__ import annotations

from datetime import timedelta

from pyspark.sql import SparkSession

from changeledger.lake import iceberg
from changeledger.model import change
from changeledger.model.window import Window
from changeledger.spark.rows import Workers
from changeledger.stages.common import input_records
from changeledger.stages.common.context import StageContext, take_lease
from tests.audit.tables import CONTRACT
from tests.ledger_windows import BEGIN, feed_of


def test_a_table_of_pending_messages_without_any_is_read_by_nobody(spark: SparkSession) -> None:
    """It stays when the last message has left it; each query of it costs a window as much as a stage."""
    feed, over = feed_of("waits", CONTRACT), Window(start=BEGIN, end=BEGIN + timedelta(hours=1))
    lease = take_lease(feed, over)
    assert lease is not None
    ctx = StageContext.begin(lambda: spark, Workers(lambda: spark), feed, over, lease)
    assert ctx is not None
    ctx.control.windows.open(feed.feed, over, None, {})
    iceberg.create(spark, feed.lake.raw, change.RAW_MESSAGE_COLUMNS, ("window_id", "topic"))
    assert input_records.waiting(ctx) is None
    iceberg.create(spark, feed.lake.pending, change.PENDING_COLUMNS)
    assert input_records.waiting(ctx) is None
    fields = ", ".join(f"CAST({value} AS {kind}) `{name}`" for (name, kind), value in _values())
    iceberg.append(spark.sql(f"SELECT {fields}"), feed.lake.pending)
    waiting = input_records.waiting(ctx)
    assert waiting is not None
    assert [row["offset"] for row in waiting.collect()] == [7]
    iceberg.replace(spark.table(feed.lake.pending).where("false"), feed.lake.pending, "main")
    assert input_records.waiting(ctx) is None


def _values() -> list[tuple[tuple[str, str], str]]:
    known = {"topic": "'t'", "partition": "0", "offset": "7"}
    return [(column, known.get(column[0], "NULL")) for column in change.PENDING_COLUMNS]
