"""Normalize: raw records into canonical changes, on the run's branch.

Records are decoded, and what belongs together is joined, before anything is written: the two rows of an
update, the two halves of an update of a key, deliveries that repeat one another. So the ledger is written
once, and so are the dispositions of the records that became no change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from changeledger.dialects import kernel as kernels
from changeledger.dialects.interface import MessageDialect, TableDialect
from changeledger.dialects.tables.plan import TablePlan
from changeledger.kernels.arrow import MESSAGE, ledger_schema
from changeledger.kernels.publishing import PublishChanges
from changeledger.kernels.rows import Part, Rows, bucketed, kept, together
from changeledger.lake import catalog, iceberg, refs, same_releases, scans, writes
from changeledger.model import change
from changeledger.model.contract import Contract
from changeledger.reconcile import ledger_kernels
from changeledger.spark.session import for_rows_of
from changeledger.stages.common import branches, input_records, published_changes
from changeledger.stages.common.context import StageContext, log
from changeledger.stages.common.frame import stage
from changeledger.stages.common.publishing import as_stated, secret_of
from changeledger.stages.normalization import (
    describing,
    mask_orders,
    not_chosen,
    other_feeds,
    other_records,
    reading,
    repairing,
    waiting,
)
from changeledger.stages.normalization.reading import Input, Records


@stage
def run(ctx: StageContext) -> None:
    """Raises ContractError if a table's columns cannot be published."""
    ctx.require_ended("extract")
    same_releases.require_release(ctx.control, ctx.feed.feed, ctx.published_names)
    ctx.control.begin_stage(ctx.feed.feed, ctx.window, "normalize")
    dialect = ctx.dialect
    if isinstance(dialect, MessageDialect):
        inputs = _message_inputs(ctx, dialect)
    else:
        inputs = _table_inputs(ctx, dialect)
    contracts = [i.contract.checked() for i in inputs if i.contract is not None]
    of_window = {contract.table: as_stated(ctx.feed, contract) for contract in contracts}
    # A table without a record in the window has its branch, too: the later stages expect it.
    _prepare(ctx, {**ctx.contracts(), **{table: stated.published for table, stated in of_window.items()}})
    describing.describe(ctx, of_window.values())
    left = ctx.workers.each(lambda table_input: _write(ctx, _published(ctx, table_input, of_window)), inputs)
    left += ctx.workers.each(partial(_write, ctx), repairing.inputs(ctx))
    other_records.write(ctx, left)
    if isinstance(dialect, MessageDialect):
        waiting.write(ctx, any(records.counts.get(change.PENDING) for records in left))
    _forget_replayed(ctx)
    ctx.finish("normalize", ctx.written, of_window.values())


def _table_inputs(ctx: StageContext, dialect: TableDialect) -> list[Input]:
    writer_schemas = ctx.control.writer_schemas(ctx.feed.feed)
    records: list[Records] = []
    for table in ctx.names:
        raw = _raw_rows(ctx, ctx.names[table].raw)
        of_table = {instance: schema for instance, schema in writer_schemas.items() if schema.table == table}
        for instance, schema in of_table.items():
            rows = raw.through(partial(_of_instance, instance), raw.schema) if len(of_table) > 1 else raw
            records.append(reading.of_change_table(dialect.kernel, table, schema, rows, ctx.feed, ctx.id))
    return _inputs(ctx, records)


def _raw_rows(ctx: StageContext, table: str) -> Rows:
    """The rows of a change table as they were read."""
    schema = to_arrow_schema(iceberg.read(ctx.spark, table).schema)
    new = scans.scanned(ctx.workers, table, scans.of_window(ctx.id), schema)
    again = input_records.asked_again(ctx, table)
    if again is None:
        return new
    return together([new, _of_spark(ctx, again.select(*map(change.quoted, schema.names)), schema)])


def _of_spark(ctx: StageContext, few: DataFrame, schema: pa.Schema) -> Rows:
    """Records that Spark has looked up, which may be large."""
    for_rows_of(ctx.spark, *map(sum, zip((0, 0), *map(scans.weight, ctx.raws), strict=True)))
    return ctx.workers.of_spark(few, few.count(), schema)


def _of_instance(instance: str, raw: pa.RecordBatch) -> pa.RecordBatch:
    return raw.filter(pc.equal(raw.column("_instance"), instance))


def _message_inputs(ctx: StageContext, dialect: MessageDialect) -> list[Input]:
    control, name = ctx.control, ctx.feed.feed
    schemas = control.writer_schemas(name), control.avro_schemas(name)
    known = kernels.EarlierWindows(_as_in_source(ctx), *schemas)
    discovered = reading.discovered(dialect.kernel, _raw_messages(ctx), ctx.feed, known, ctx.id)
    for warning in discovered.warnings:
        log.warning("%s: %s", name, warning)
    for schema_name, schema in discovered.writer_schemas.items():
        control.save_writer_schema(name, schema_name, schema, ctx.id)
    for schema_id, avro_schema in discovered.avro_schemas.items():
        control.save_avro_schema(name, schema_id, avro_schema, ctx.id)
    return [
        *_inputs(ctx, discovered.records),
        Input(None, None, not_chosen.named(ctx, together(discovered.others))),
    ]


def _raw_messages(ctx: StageContext) -> Rows:
    """`arrow.MESSAGE` of the window's messages, and of those that earlier windows have left to wait."""
    new = scans.scanned(ctx.workers, ctx.lake.raw, scans.of_window(ctx.id), MESSAGE)
    others = (input_records.asked_again(ctx, ctx.lake.raw), input_records.waiting(ctx))
    more = [rows.select(*MESSAGE.names) for rows in others if rows is not None]
    return together([new, *(_of_spark(ctx, rows, MESSAGE) for rows in more)])


def _inputs(ctx: StageContext, records: Sequence[Records]) -> list[Input]:
    """The records of the feed's tables decoded, each input with the contract that they agree on."""
    known = reading.TableKnowledge(
        _as_in_source(ctx),
        mask_orders.MaskOrders(ctx).resolved,
        partial(other_feeds.borrowed, ctx),
        partial(other_feeds.computed, ctx),
    )
    return reading.inputs(records, known, ctx.workers.each)


def _as_in_source(ctx: StageContext) -> dict[str, Contract]:
    """The contracts that records are read by."""
    return {table: contract.unpublished for table, contract in ctx.control.contracts(ctx.feed.feed).items()}


def _published(ctx: StageContext, table_input: Input, contracts: Mapping[str, Contract]) -> Input:
    """The input in the columns that are published; the two rows of each update are joined before."""
    if table_input.table is None or table_input.contract is None:
        return table_input
    contract, decoded = contracts[table_input.table], _joined(ctx, table_input.decoded, table_input.contract)
    if contract.published == contract:
        return Input(table_input.table, contract, decoded)
    kernel = PublishChanges(contract, secret_of(ctx.feed, contract), decoded.schema)
    return Input(table_input.table, contract.published, decoded.through(kernel, kernel.schema))


def _prepare(ctx: StageContext, contracts: Mapping[str, Contract]) -> None:
    """Tables with their newest columns; what this stage writes gets a branch as main is now."""
    of_feed = ctx.lake
    own = {of_feed.dispositions: change.DISPOSITION_COLUMNS, of_feed.quarantine: change.QUARANTINE_COLUMNS}
    tables: dict[str, tuple[Contract, iceberg.Columns]] = {}
    for contract in contracts.values():
        names = ctx.names[contract.table]
        tables[names.changes] = contract, change.ledger_columns(contract)
        tables[names.history] = contract, change.history_columns(contract)
        tables[names.current] = contract, change.current_columns(contract)
    existing_tables = set(catalog.tables(ctx.feed.namespace))
    published = ctx.published(existing_tables & tables.keys())
    for table, columns in own.items():
        if table not in existing_tables:
            iceberg.create(ctx.spark, table, columns)
        iceberg.fresh_branch(ctx.spark, table, ctx.branch)
    known = [table for table in tables if table in existing_tables]
    if any(iceberg.parallel_map(lambda table: iceberg.narrow(ctx.spark, table, tables[table][1]), known)):
        # Their snapshots hold columns that are gone now.
        ctx.control.forget_stages_of_others(ctx.feed.feed, ctx.window)
        existing_tables = set(catalog.tables(ctx.feed.namespace))

    def prepare(table: str) -> None:
        contract, columns = tables[table]
        if table in existing_tables:
            iceberg.widen(ctx.spark, table, columns)
        else:
            is_history = table == ctx.names[contract.table].history
            iceberg.create(ctx.spark, table, columns, change.HISTORY_PARTITIONS if is_history else ())
        if table == ctx.names[contract.table].changes:
            branches.begin(ctx, table, contract, published.get(table))

    iceberg.parallel_map(prepare, tables)


def _write(ctx: StageContext, table_input: Input) -> other_records.OtherRecords:
    """Append the input's changes; return its other records."""
    if table_input.table is None or table_input.contract is None:
        kernel = partial(ledger_kernels.left, table=table_input.table, window_id=ctx.id)
        rows = table_input.decoded.through(kernel, ledger_kernels.LEFT_COLUMNS)
        return other_records.of_no_table(rows)
    contract, names = table_input.contract, ctx.names[table_input.table]
    decoded: Rows = table_input.decoded
    published: Rows = ctx.workers.nothing(ledger_schema(contract))
    is_published = not ctx.starts_over and refs.snapshot_of(names.changes) is not None
    if is_published:
        if not _of_pairs(decoded):
            # Else they would be decoded twice.
            decoded = kept({ledger_kernels.NEW: Part(decoded, ledger_kernels.key)})[ledger_kernels.NEW]
        published = published_changes.published(ctx, contract, decoded)
    resolved = _resolved(ctx, decoded, contract, published)
    if is_published:
        # What stands at the positions of the window's changes is published already, or half of it.
        replaced = resolved[ledger_kernels.REPLACED].collected()
        if len(replaced):
            gone = ctx.workers.given(replaced).frame
            windows = set(replaced.column("window_id").to_pylist())
            iceberg.delete_changes(gone, names.changes, ctx.branch, windows)
    changes = resolved[ledger_kernels.CHANGES]
    writes.append(changes, names.changes, ctx.branch, change.ledger_columns(contract))
    left = other_records.counted(resolved[ledger_kernels.LEFT])
    others = ", ".join(f"{count:,} {what}" for what, count in sorted(left.counts.items()))
    log.info(
        "%s: %s: changes are written; other records: %s",
        ctx.feed.feed,
        table_input.table,
        others or "nothing",
    )
    return left


def _joined(ctx: StageContext, decoded: Rows, contract: Contract) -> Rows:
    """The rows with the two of each update joined, where a dialect has two."""
    if not _of_pairs(decoded):
        return decoded
    kernel = ledger_kernels.JoinPairs(TablePlan(ctx.feed, contract, contract, ctx.id))
    parts = {ledger_kernels.NEW: Part(decoded, ledger_kernels.key_of_pairs)}
    return bucketed(parts, kernel, {ledger_kernels.NEW: decoded.schema})[ledger_kernels.NEW]


def _of_pairs(decoded: Rows) -> bool:
    return "pair_key" in decoded.schema.names


def _resolved(ctx: StageContext, decoded: Rows, contract: Contract, published: Rows) -> dict[str, Rows]:
    key = ledger_kernels.key
    parts = {ledger_kernels.NEW: Part(decoded, key), ledger_kernels.NEAR: Part(published, key)}
    kernel = ledger_kernels.ResolveChanges(contract, ctx.id, _of_pairs(decoded))
    return bucketed(parts, kernel, ledger_kernels.outputs(contract))


def _forget_replayed(ctx: StageContext) -> None:
    """Take what was asked for again, and is read again, out of the quarantine of the runs before. A run that
    starts over has asked for everything.

    The list itself belongs to no release: publish takes off it what the run has read.
    """
    asked = input_records.replayed(ctx)
    if ctx.starts_over and scans.has_rows(ctx.lake.quarantine):
        asked = iceberg.read(ctx.spark, ctx.lake.quarantine).select("window_id", "source_position")
    if asked is not None:
        read = iceberg.union([input_records.raw(ctx, raw).select("source_position") for raw in ctx.raws])
        again = asked.join(read, "source_position", "left_semi")
        iceberg.delete_records(again, ctx.lake.quarantine, ctx.branch)
