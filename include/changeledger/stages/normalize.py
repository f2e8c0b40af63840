"""Normalize: turns raw records into canonical changes on the run's branch.

All records are decoded and joined before anything is written: the two rows of an update, the two halves of a
key update, repeated deliveries. The ledger and the dispositions of records that became no change are
therefore written only once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from changeledger.dialects import kernel as kernels
from changeledger.dialects.interface import MessageDialect, TableDialect
from changeledger.dialects.plan import TablePlan
from changeledger.kernels.arrow import MESSAGE, ledger_schema
from changeledger.kernels.publishing import PublishChanges
from changeledger.kernels.rows import Part, Rows, bucketed, kept, together, where
from changeledger.lake import catalog, iceberg, refs, same_releases, scans, writes
from changeledger.lake.file_writes import NO_FILES, Writing, Written
from changeledger.model import change
from changeledger.model.contract import Contract
from changeledger.reconcile import ledger_kernels
from changeledger.spark.session import for_rows_of
from changeledger.stages.common import input_records, published_changes
from changeledger.stages.common.context import StageContext, log
from changeledger.stages.common.frame import stage
from changeledger.stages.common.publishing import as_stated, secret_of
from changeledger.stages.extraction import joined
from changeledger.stages.normalization import (
    mask_orders,
    other_feeds,
    other_records,
    preparing,
    quarantined,
    reading,
    repairing,
    waiting,
)
from changeledger.stages.normalization.reading import Input, Records


@stage
def run(ctx: StageContext) -> None:
    """Normalizes the window's records. Raises ContractError if a table's columns cannot be published."""
    ctx.require_ended("extract")
    lake_tables = [*ctx.lake, *(name for names in ctx.names.values() for name in names)]
    same_releases.require_release(ctx.control, ctx.feed.feed, lake_tables)
    ctx.control.windows.begin_stage(ctx.feed.feed, ctx.window, "normalize")
    dialect = ctx.dialect
    released = ctx.control.contracts.of_feed(ctx.feed.feed)
    # Source contracts, by which records are read.
    known = {table: contract.unpublished for table, contract in released.items()}
    if isinstance(dialect, MessageDialect):
        # The feed may list tables that it did not list when the window was extracted.
        joined.note(ctx)
        inputs = _message_inputs(ctx, dialect, known)
    else:
        inputs = _table_inputs(ctx, dialect, known)
    contracts = [i.contract.checked() for i in inputs if i.contract is not None]
    _warn_of_columns(ctx, contracts)
    of_window = {contract.table: as_stated(ctx.feed, contract) for contract in contracts}
    published = {table: stated.published for table, stated in of_window.items()}
    repairs = repairing.inputs(ctx)
    with_records = {table_input.table for table_input in [*inputs, *repairs] if table_input.table is not None}
    prepared = preparing.prepare(ctx, {**ctx.contracts(), **published}, with_records, released)
    preparing.describe(ctx, of_window.values(), prepared.unchanged)
    records = ctx.workers.each(lambda of: _normalized(ctx, _published(ctx, of, of_window)), inputs)
    records += ctx.workers.each(partial(_normalized, ctx), repairs)
    _write(ctx, records)
    if isinstance(dialect, MessageDialect):
        waiting.write(ctx, any(of_input.others.counts.get(change.PENDING) for of_input in records))
    quarantined.forget_read_again(ctx)
    written = set(ctx.written) - prepared.untouched.keys()
    ctx.finish("normalize", written, of_window.values(), untouched=prepared.untouched)


def _warn_of_columns(ctx: StageContext, contracts: Iterable[Contract]) -> None:
    """Warns of columns in `columns:` that a table does not have.

    This is no error: the source may get the column later, or have lost it.
    """
    for contract in contracts:
        config = ctx.feed.table(contract.table)
        stated = [c.name for c in config.columns] if config else []
        for said in contract.unknown(stated).values():
            what = "`columns:` names a column that the table does not have"
            log.warning("%s: %s: %s: %s", ctx.feed.feed, contract.table, what, said)


def _table_inputs(ctx: StageContext, dialect: TableDialect, known: Mapping[str, Contract]) -> list[Input]:
    writer_schemas = ctx.control.contracts.writer_schemas(ctx.feed.feed)
    reads_again = input_records.replayed(ctx) is not None
    records: list[Records] = []
    for table in ctx.names:
        name = ctx.names[table].raw
        of_table = {instance: schema for instance, schema in writer_schemas.items() if schema.table == table}
        if not reads_again and _is_quiet(ctx, name, known.get(table), of_table.values()):
            continue
        # The raw table's schema, in which the rows were read from the source.
        columns = to_arrow_schema(iceberg.read(ctx.spark, name).schema)
        raw: Rows = scans.scanned(ctx.workers, name, scans.of_window(ctx.id), columns)
        again = input_records.asked_again(ctx, name)
        if again is not None:
            few = again.select(*map(change.quoted, columns.names))
            raw = together([raw, _of_spark(ctx, few, columns)])
        for instance, schema in of_table.items():
            rows = where(raw, "_instance", instance) if len(of_table) > 1 else raw
            records.append(reading.of_change_table(dialect.kernel, table, schema, rows, ctx.feed, ctx.id))
    return _inputs(ctx, records, known)


def _is_quiet(ctx: StageContext, raw: str, contract: Contract | None, written: Iterable[Contract]) -> bool:
    """Returns whether the window has no record of the table and its writer schemas say nothing new."""
    return (
        contract is not None and all(map(contract.says_all_of, written)) and not scans.has_rows(raw, ctx.id)
    )


def _of_spark(ctx: StageContext, few: DataFrame, schema: pa.Schema) -> Rows:
    """Converts records that Spark has read; prepares the session for large ones first."""
    for_rows_of(ctx.spark, *map(sum, zip((0, 0), *map(scans.weight, ctx.raws), strict=True)))
    return ctx.workers.of_spark(few, few.count(), schema)


def _message_inputs(
    ctx: StageContext, dialect: MessageDialect, contracts: Mapping[str, Contract]
) -> list[Input]:
    control, name = ctx.control, ctx.feed.feed
    schemas = control.contracts.writer_schemas(name), control.contracts.avro_schemas(name)
    known = kernels.EarlierWindows(contracts, *schemas)
    discovered = reading.discovered(dialect.kernel, _raw_messages(ctx), ctx.feed, known, ctx.id)
    for warning in discovered.warnings:
        log.warning("%s: %s", name, warning)
    for schema_name, schema in discovered.writer_schemas.items():
        control.contracts.save_writer_schema(name, schema_name, schema, ctx.id)
    for schema_id, avro_schema in discovered.avro_schemas.items():
        control.contracts.save_avro_schema(name, schema_id, avro_schema, ctx.id)
    return [
        *_inputs(ctx, discovered.records, contracts),
        Input(None, None, other_records.not_chosen(ctx, together(discovered.others))),
    ]


def _raw_messages(ctx: StageContext) -> Rows:
    """Returns `arrow.MESSAGE` of the window's messages, those to replay and pending ones."""
    new = scans.scanned(ctx.workers, ctx.lake.raw, scans.of_window(ctx.id), MESSAGE)
    others = (input_records.asked_again(ctx, ctx.lake.raw), input_records.waiting(ctx))
    again = [rows.select(*MESSAGE.names) for rows in others if rows is not None]
    return together([new, *(_of_spark(ctx, rows, MESSAGE) for rows in again)])


def _inputs(ctx: StageContext, records: Sequence[Records], known: Mapping[str, Contract]) -> list[Input]:
    """Decodes the records of the feed's tables. Each input has the contract that its records agree on."""
    others, orders = other_feeds.OtherFeeds(ctx), mask_orders.MaskOrders(ctx)
    knowledge = reading.TableKnowledge(known, orders.resolved, others.borrowed, others.computed)
    return reading.inputs(records, knowledge, ctx.workers.each)


def _published(ctx: StageContext, table_input: Input, contracts: Mapping[str, Contract]) -> Input:
    """Joins the two rows of each update, then reduces the input to the published columns."""
    if table_input.table is None or table_input.contract is None:
        return table_input
    contract, decoded = contracts[table_input.table], _joined(ctx, table_input.decoded, table_input.contract)
    if contract.published == contract:
        return Input(table_input.table, contract, decoded)
    kernel = PublishChanges(contract, secret_of(ctx.feed, contract), decoded.schema)
    return Input(table_input.table, contract.published, decoded.through(kernel, kernel.schema))


class _Normalized(NamedTuple):
    """A normalized input: what is to be written into a ledger, and its other records."""

    changes: writes.TableChange | None
    others: other_records.OtherRecords


def _normalized(ctx: StageContext, table_input: Input) -> _Normalized:
    """Resolves the input's rows to what is to be written, and deletes from the branch what they replace."""
    if table_input.table is None or table_input.contract is None:
        of_records = partial(ledger_kernels.others_of, table=table_input.table, window_id=ctx.id)
        rows = table_input.decoded.through(of_records, ledger_kernels.OTHER_COLUMNS)
        return _Normalized(None, other_records.of_no_table(rows))
    contract, names = table_input.contract, ctx.names[table_input.table]
    decoded: Rows = table_input.decoded
    published: Rows = ctx.workers.nothing(ledger_schema(contract))
    main = None if ctx.starts_over else refs.snapshot_of(names.changes)
    if main is not None:
        if not _of_pairs(decoded):
            # Kept, since they are read twice and would be decoded twice.
            decoded = kept({ledger_kernels.NEW: Part(decoded, ledger_kernels.key)})[ledger_kernels.NEW]
        published = published_changes.published(ctx, contract, decoded)
    key = ledger_kernels.key
    parts = {ledger_kernels.NEW: Part(decoded, key), ledger_kernels.NEAR: Part(published, key)}
    resolve = ledger_kernels.ResolveChanges(contract, ctx.id, _of_pairs(decoded))
    kernel = Written(resolve, {ledger_kernels.CHANGES: Writing.into(catalog.load(names.changes))})
    resolved = bucketed(parts, kernel, kernel.outputs(ledger_kernels.outputs(contract)))
    # At the positions of the window's changes the whole change may be published already, or half of it.
    asked = [] if main is None else [resolved[ledger_kernels.REPLACED]]
    others, (files, *collected) = other_records.counted(
        resolved[ledger_kernels.OTHERS], [resolved[ledger_kernels.CHANGES], *asked]
    )
    for replaced in collected:
        if len(replaced):
            gone = writes.Keys(ctx.workers.given(replaced), ledger_kernels.REPLACED_KEY, replaced)
            # A commit of its own: the other one only adds rows, for readers that follow the ledger.
            writes.apply(ctx.workers, [writes.TableChange(names.changes, ctx.branch, NO_FILES, [gone])])
    counts = ", ".join(f"{count:,} {what}" for what, count in sorted(others.counts.items()))
    log.info(
        "%s: %s: records without a change in the ledger: %s",
        ctx.feed.feed,
        table_input.table,
        counts or "none",
    )
    return _Normalized(writes.TableChange(names.changes, ctx.branch, files), others)


def _write(ctx: StageContext, records: Sequence[_Normalized]) -> None:
    others = other_records.to_be_written(ctx, [of_input.others for of_input in records])
    writes.apply(ctx.workers, [*(of.changes for of in records if of.changes is not None), *others])


def _joined(ctx: StageContext, decoded: Rows, contract: Contract) -> Rows:
    """Joins the two rows of each update, if the dialect has two."""
    if not _of_pairs(decoded):
        return decoded
    kernel = partial(ledger_kernels.join_pairs, plan=TablePlan(ctx.feed, contract, contract, ctx.id))
    parts = {ledger_kernels.NEW: Part(decoded, ledger_kernels.key_of_pairs)}
    return bucketed(parts, kernel, {ledger_kernels.NEW: decoded.schema})[ledger_kernels.NEW]


def _of_pairs(decoded: Rows) -> bool:
    return "pair_key" in decoded.schema.names
