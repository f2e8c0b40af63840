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
from changeledger.spark.rows import Workers
from changeledger.stages.common.context import StageContext, take_lease
from changeledger.stages.normalization.quarantined import forget_read_again
from tests.audit.tables import CONTRACT
from tests.ledger_windows import BEGIN, feed_of
from tests.released import release
from tests.stored_rows import stored_rows

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
    ctx = begun(spark, feed_of(name, CONTRACT), request_, begin)
    quarantine, dispositions = ctx.lake.quarantine, ctx.lake.dispositions
    add(spark, ctx.lake.raw, change.RAW_MESSAGE_COLUMNS, [(ctx.id, n) for n in (7, 8)], of_raw=True)
    add(spark, quarantine, change.QUARANTINE_COLUMNS, [(EARLIER, n) for n in (7, 8, 9)])
    for table in (quarantine, dispositions):
        iceberg.fresh_branch(spark, table, ctx.branch)
    add(spark, quarantine, change.QUARANTINE_COLUMNS, [(ctx.id, 8)], ctx.branch)
    if request_ == CHOSEN:
        not_chosen = {"reason": f"'{change.TABLE_NOT_CHOSEN}'"}
        add(spark, dispositions, change.DISPOSITION_COLUMNS, [(ctx.id, 7)], ctx.branch, **not_chosen)
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
    tables = [{"table": CONTRACT.table, "key": ["order"]}]
    of = {"feed": f"again_{dialect}", "dialect": dialect, "database": "shop", "connection": "none"}
    ctx = begun(spark, Feed.model_validate({**of, "source": {}, "tables": tables}), AGAIN, 10)
    raw, quarantine = ctx.names[CONTRACT.table].raw, ctx.lake.quarantine
    columns = (("window_id", "string"), ("source_position", change.RECORD_TYPE))
    new_tables.create(raw, table_schema(columns))
    add(spark, raw, columns, [(ctx.id, 7)])
    add(spark, quarantine, change.QUARANTINE_COLUMNS, [(EARLIER, 7)])
    iceberg.fresh_branch(spark, quarantine, ctx.branch)
    forget_read_again(ctx)
    assert {row["window_id"] for row in stored_rows(quarantine, ctx.branch)} == left


def begun(spark: SparkSession, feed: Feed, request: Request, begin: int) -> StageContext:
    """Begins a run of a feed that is released up to offset 10; the run reads from offset `begin` on."""
    name = feed.feed
    release(ControlStore(Settings().control_url), name, [], position={"t": {"0": 10}})
    over = Window(start=BEGIN, end=BEGIN + timedelta(hours=1), request=request)
    lease = take_lease(feed, over)
    assert lease is not None
    ctx = StageContext.begin(lambda: spark, Workers(lambda: spark), feed, over, lease)
    assert ctx is not None
    ctx.control.windows.open(name, over, {"t": {"0": begin}}, {"t": {"0": 10}})
    new_tables.create(feed.lake.raw, table_schema(change.RAW_MESSAGE_COLUMNS), change.RAW_PARTITIONS)
    new_tables.create(feed.lake.quarantine, table_schema(change.QUARANTINE_COLUMNS))
    new_tables.create(feed.lake.dispositions, table_schema(change.DISPOSITION_COLUMNS))
    return ctx


def add(
    spark: SparkSession,
    table: str,
    columns: tuple[tuple[str, str], ...],
    records: list[tuple[str, int]],
    branch: str = "main",
    *,
    of_raw: bool = False,
    **said: str,
) -> None:
    """Adds one row for each run and offset."""

    def row(run: str, offset: int) -> str:
        place = f"named_struct('source', 't', 'partition', 0, 'offset', {offset}L, 'row', NULL)"
        known = {"topic": "'t'", "partition": "0", "offset": str(offset)} if of_raw else {**said}
        known |= {"window_id": f"'{run}'", "source_position": place}
        cells = ((known.get(name, "NULL"), kind, name) for name, kind in columns)
        return "SELECT " + ", ".join(f"CAST({text} AS {kind}) `{name}`" for text, kind, name in cells)

    iceberg.append(spark.sql(" UNION ALL ".join(row(*record) for record in records)), table, branch)
