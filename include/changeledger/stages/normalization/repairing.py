"""Repairs: applies changes that a proof has planned, in a run of its own, on request.

Planned repairs are treated like a source's records: stored as planned, decoded by the table's contract
(`verify.repairs`), accounted for, reconciled and audited.
"""

from __future__ import annotations

from functools import partial

from pyspark.sql import functions as F

from changeledger.control.outcomes import DRIFTED, SOURCE
from changeledger.dialects.messages.message_rows import decoded_schema
from changeledger.dialects.plan import TablePlan
from changeledger.kernels.arrow import table_schema
from changeledger.lake import iceberg, new_tables, writes
from changeledger.lake.records import row_record
from changeledger.model import change
from changeledger.model.errors import ConfigError
from changeledger.model.table_names import REPAIRS
from changeledger.stages.common import input_records
from changeledger.stages.common.context import StageContext, log
from changeledger.stages.normalization.reading import Input
from changeledger.verify import repairs


def take(ctx: StageContext) -> None:
    """Stores the repairs that the last proofs against the source have planned for the request's tables.

    They are taken once: a retry applies the same repairs, whatever later proofs have found. Raises
    ConfigError if no last proof has found drift.
    """
    new_tables.create(ctx.lake.applied_repairs, repairs.RAW, change.BY_WINDOW)
    since, taken = ctx.main_before(ctx.lake.applied_repairs), input_records.planned(ctx)
    if taken is not None and not taken.isEmpty():
        return
    feed, tables = ctx.feed, {t.table for t in ctx.whole.only(ctx.window.request.tables).tables}
    proofs = [
        row.id
        for row in ctx.control.proofs.last(feed.database).get(feed.feed, [])
        if (row.against, row.outcome) == (SOURCE, DRIFTED) and (row.table in tables or not tables)
    ]
    if not proofs:
        raise ConfigError(
            f"there is nothing to repair: the last proofs of {feed.feed!r} against its source found no drift",
            f"run `changeledger verify {feed.database} --snapshot fresh`: it plans what would correct drift",
        )
    record = row_record(F.col("proof_id"), F.encode("key", "UTF-8"))
    plans = iceberg.read(ctx.spark, REPAIRS).where(F.col("proof_id").isin(proofs))
    named = plans.withColumns({"window_id": F.lit(ctx.id), "source_position": record})
    typed = named.select(*(F.col(name).cast(kind) for name, kind in repairs.COLUMNS))
    rows = ctx.workers.of_spark(typed, schema=table_schema(repairs.COLUMNS))
    writes.replace_window(rows, ctx.lake.applied_repairs, ctx.id, since)
    log.info("%s: repairs as planned by %s", feed.feed, ", ".join(proofs))


def inputs(ctx: StageContext) -> list[Input]:
    """Returns an input for each table that the run repairs."""
    planned = input_records.planned(ctx)
    if planned is None:
        return []
    table_inputs = []
    for row in planned.select("table").distinct().collect():
        contract = ctx.control.contracts.of_table(ctx.feed.feed, row["table"])
        assert contract is not None, "a proof reads what was published"
        contract = contract.published
        of_table = planned.where(F.col("table") == row["table"])
        rows = ctx.workers.of_spark(of_table, of_table.count(), repairs.RAW)
        decode = partial(repairs.decode, plan=TablePlan(ctx.feed, contract, contract, ctx.id))
        table_inputs.append(Input(contract.table, contract, rows.through(decode, decoded_schema(contract))))
    return table_inputs
