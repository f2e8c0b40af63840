"""A record that is read again is in quarantine once, by the run that read it last, or no longer."""

from __future__ import annotations

from datetime import timedelta

import pytest
from pyspark.sql import SparkSession

from changeledger.config.feed import Feed
from changeledger.config.settings import Settings
from changeledger.control import ControlStore
from changeledger.kernels.arrow import table_schema
from changeledger.lake import iceberg, new_tables
from changeledger.model import change
from changeledger.model.window import Request, Window
from changeledger.stages.common.context import StageContext
from changeledger.stages.normalization.quarantined import forget_read_again
from tests.audit.tables import CONTRACT
from tests.feeds import feed_of
from tests.ledger_windows import BEGIN
from tests.ledger_windows import begun as window_begun
from tests.released import release
from tests.stored_rows import append_rows, message, stored_rows

EARLIER = "an earlier run"
AGAIN = Request()
CHOSEN = Request(mode="window", tables=(CONTRACT.table,), run="manual__1")


@pytest.mark.parametrize(
    ("name", "request_", "begin", "left"),
    [
        ("quarantined_past", AGAIN, 0, {(EARLIER, 9), ("now", 8)}),
        ("quarantined_chosen", CHOSEN, 0, {(EARLIER, 7), (EARLIER, 9), ("now", 8)}),
        ("quarantined_new", AGAIN, 10, {(EARLIER, 7), (EARLIER, 8), (EARLIER, 9), ("now", 8)}),
    ],
)
def test_read_again(
    spark: SparkSession, name: str, request_: Request, begin: int, left: set[tuple[str, int]]
) -> None:
    """An earlier run quarantined 7, 8 and 9. A window of the past reads 7 and 8 again, and 8 is still bad.

    In the run of chosen tables, 7 is of another table. A window of new records reads none of them, so nothing
    is searched.
    """
    ctx = begun(spark, feed_of(name, CONTRACT.table), request_, begin)
    quarantine, dispositions = ctx.lake.quarantine, ctx.lake.dispositions
    append_rows(ctx.lake.raw, change.RAW_MESSAGE_COLUMNS, [message(ctx.id, n) for n in (7, 8)])
    append_rows(quarantine, change.QUARANTINE_COLUMNS, [message(EARLIER, n) for n in (7, 8, 9)])
    for table in (quarantine, dispositions):
        iceberg.fresh_branch(spark, table, ctx.branch)
    append_rows(quarantine, change.QUARANTINE_COLUMNS, [message(ctx.id, 8)], ctx.branch)
    if request_ == CHOSEN:
        not_chosen = {**message(ctx.id, 7), "reason": change.TABLE_NOT_CHOSEN}
        append_rows(dispositions, change.DISPOSITION_COLUMNS, [not_chosen], ctx.branch)
    forget_read_again(ctx)
    rows = stored_rows(quarantine, ctx.branch)
    assert {
        ("now" if row["window_id"] == ctx.id else row["window_id"], row["source_position"]["offset"])
        for row in rows
    } == left
    assert len(rows) == len(left)


@pytest.mark.parametrize(("dialect", "left"), [("qlik_tables", set()), ("sqlserver_cdc", {EARLIER})])
def test_rows_that_each_window_has_again(spark: SparkSession, dialect: str, left: set[str]) -> None:
    """A full load has no `change_seq`, so every window reads its rows again.

    SQL Server's rows have an LSN and come once, so nothing is searched.
    """
    table = {"table": CONTRACT.table, "key": ["order"]}
    ctx = begun(spark, feed_of(f"again_{dialect}", table, dialect=dialect, source={}), AGAIN, 10)
    raw, quarantine = ctx.names[CONTRACT.table].raw, ctx.lake.quarantine
    columns = (("window_id", "string"), ("source_position", change.RECORD_TYPE))
    new_tables.create(raw, table_schema(columns))
    append_rows(raw, columns, [message(ctx.id, 7)])
    append_rows(quarantine, change.QUARANTINE_COLUMNS, [message(EARLIER, 7)])
    iceberg.fresh_branch(spark, quarantine, ctx.branch)
    forget_read_again(ctx)
    assert {row["window_id"] for row in stored_rows(quarantine, ctx.branch)} == left


def begun(spark: SparkSession, feed: Feed, request: Request, begin: int) -> StageContext:
    """Begins a run of a feed that is released up to offset 10; the run reads from offset `begin` on."""
    end = {"t": {"0": 10}}
    release(ControlStore(Settings().control_url), feed.feed, [], position=end)
    over = Window(start=BEGIN, end=BEGIN + timedelta(hours=1), request=request)
    ctx = window_begun(spark, feed, over, {"t": {"0": begin}}, end)
    new_tables.create(feed.lake.raw, table_schema(change.RAW_MESSAGE_COLUMNS), change.RAW_PARTITIONS)
    new_tables.create(feed.lake.quarantine, table_schema(change.QUARANTINE_COLUMNS))
    new_tables.create(feed.lake.dispositions, table_schema(change.DISPOSITION_COLUMNS))
    return ctx
