"""Carries windows of ledger rows through the real reconcile stage and publishes them, without the stages
before it and without the audit."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from changeledger.config.feed import Feed
from changeledger.dialects.messages.message_rows import OUTCOME, decoded_schema
from changeledger.lake.publishing import complete
from changeledger.model import change
from changeledger.model.contract import Contract
from changeledger.model.window import Window
from changeledger.spark.rows import Workers
from changeledger.stages import normalize, reconcile
from changeledger.stages.common.context import StageContext, take_lease
from changeledger.stages.normalization import preparing
from changeledger.stages.normalization.reading import Input
from tests.reconcile.tables import ledger
from tests.stored_rows import stored_rows

# Columns that say which run wrote a row, and from which of several deliveries.
OF_THE_RUN = ("_window_id", "window_id", "source_position", "paired_source_position")
BEGIN = datetime(2024, 1, 1, tzinfo=UTC)

LedgerRow = dict[str, Any]


def begun(spark: SparkSession, feed: Feed, over: Window, start: Any = None, end: Any = None) -> StageContext:
    """Begins a run of the window, whose positions in the source are from `start` to `end`."""
    lease = take_lease(feed, over)
    assert lease is not None
    ctx = StageContext.begin(lambda: spark, Workers(lambda: spark), feed, over, lease)
    assert ctx is not None
    ctx.control.windows.open(feed.feed, over, start, end or {})
    return ctx


def carry(
    spark: SparkSession, feed: Feed, contract: Contract, rows: Sequence[LedgerRow], number: int
) -> StageContext:
    """Publishes one window with these rows, at source positions that no earlier window has.

    Returns the run as its audit would have seen it.
    """
    start, end = (BEGIN + timedelta(hours=number + more) for more in (0, 1))
    over = Window(start=start, end=end)
    ctx = begun(spark, feed, over)
    ctx.control.windows.begin_stage(feed.feed, over, "normalize")
    released = ctx.control.contracts.of_feed(feed.feed)
    preparing.prepare(ctx, {contract.table: contract}, {contract.table}, released)
    delivered = [
        {**row, "window_id": over.id, "source_position": (contract.table, 0, number * 10_000 + at, None)}
        for at, row in enumerate(rows)
    ]
    source = Input(
        contract.table, contract, ctx.workers.given(_decoded(ledger(delivered, contract), contract))
    )
    normalize._write(ctx, [normalize._normalized(ctx, source)])
    ctx.finish("normalize", ctx.written, [contract])
    reconcile.run(spark, feed, over)
    built = ctx.require_done("reconcile")
    ctx.control.audits.save(feed.feed, over, [], built)
    ctx.control.releases.commit(feed.feed, over, built.tables, {}, {})
    release = ctx.control.releases.of_window(feed.feed, over)
    assert release is not None
    complete(lambda: spark, ctx.control, release)
    ctx.control.leases.release(feed.feed, over.holder)
    return ctx.at(built)


def _decoded(changes: pa.Table, contract: Contract) -> pa.Table:
    """Returns ledger rows as a dialect's kernel does."""
    size, schema = len(changes), decoded_schema(contract)
    beside = {name: pa.nulls(size, kind) for name, kind in OUTCOME}
    beside["disposition"] = pa.repeat(pa.scalar(change.CHANGE), size)
    columns = {**dict(zip(changes.column_names, changes.columns, strict=True)), **beside}
    return pa.table([columns[name] for name in schema.names], schema=schema)


def rows_of(feed: Feed, name: str) -> list[dict[str, Any]]:
    rows = stored_rows(f"lake.{feed.feed}.{name}")
    return sorted(({k: v for k, v in row.items() if k not in OF_THE_RUN} for row in rows), key=repr)
