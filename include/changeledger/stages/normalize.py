"""Normalize: raw records into canonical changes, on the run's branch.

Records are decoded, and what belongs together is joined, before anything is written: the two rows of an
update, the two halves of an update of a key, deliveries that repeat one another. So the ledger is written
once, and so are the dispositions of the records that became no change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from changeledger import change
from changeledger.contract import Contract
from changeledger.dialects.base import MessageDialect, TableDialect
from changeledger.kernels import interface as kernels
from changeledger.kernels.arrow import MESSAGE
from changeledger.kernels.reconcile import settle
from changeledger.kernels.reconcile.expired import expired
from changeledger.kernels.rows import Here, Part, Rows, bucketed, together
from changeledger.kernels.tables.plan import TablePlan
from changeledger.plans import at_hand
from changeledger.stages import branches, mask_orders, near, other_feeds, reading, repairing
from changeledger.stages.carried import Carrier
from changeledger.stages.reading import Input, Records
from changeledger.stages.run import Run, log, stage
from changeledger.storage import catalog, lake, refs, writes
from changeledger.storage.records import message_record
from changeledger.storage.spread import as_frame

_COUNTED = pa.schema([("disposition", pa.string()), ("rows", pa.int64())])


@stage
def run(this: Run) -> None:
    """Raises ContractError where a table's columns cannot be published."""
    this.opened("normalize")
    this.control.begin_stage(this.feed.feed, this.window, "normalize")
    dialect = this.dialect
    with at_hand() as keep:
        carrier = Carrier.of_raw(this, keep)
        if isinstance(dialect, MessageDialect):
            inputs = _message_inputs(this, dialect, carrier)
        else:
            inputs = _table_inputs(this, dialect, carrier)
        inputs += repairing.inputs(this, carrier)
        of_window = {i.contract.table: i.contract.checked() for i in inputs if i.contract is not None}
        # A table without a record in the window has its branch, too: the later stages expect it.
        _prepare(this, {**this.contracts(), **of_window})
        left = lake.each(partial(_write, this), inputs)
        _write_dispositions(this, left)
        if isinstance(dialect, MessageDialect):
            _write_pending(this, any(one.counts.get(change.PENDING) for one in left))
    _forget_replayed(this)
    this.finish("normalize", this.written, of_window.values())


def _table_inputs(this: Run, dialect: TableDialect, carrier: Carrier) -> list[Input]:
    shapes = this.control.shapes(this.feed.feed)
    records: list[Records] = []
    for table in this.names:
        raw = this.raw(this.raw_table(table))
        of_table = {instance: shape for instance, shape in shapes.items() if shape.table == table}
        for instance, shape in of_table.items():
            rows = raw.where(F.col("_instance") == instance) if len(of_table) > 1 else raw
            carried = carrier.carried(rows)
            records.append(reading.of_change_table(dialect.kernel, table, shape, carried, this.feed, this.id))
    return _inputs(this, records)


def _message_inputs(this: Run, dialect: MessageDialect, carrier: Carrier) -> list[Input]:
    control, name = this.control, this.feed.feed
    known = kernels.Known(control.contracts(name), control.shapes(name), control.writer_schemas(name))
    raw = carrier.carried(_messages(this).select(*MESSAGE.names))
    found = reading.surveyed(dialect.kernel, raw, this.feed, known, this.id)
    for schema_name, schema in found.writer_schemas.items():
        control.save_shape(name, schema_name, schema, this.id)
    for schema_id, avro_schema in found.avro_schemas.items():
        control.save_writer_schema(name, schema_id, avro_schema, this.id)
    return [*_inputs(this, found.records), Input(None, None, together(found.others))]


def _messages(this: Run) -> DataFrame:
    """The window's messages, and those that earlier windows have left to wait."""
    new = this.raw(this.raw_messages)
    waiting = this.waiting()
    if waiting is None:
        return new.drop("record")
    waiting = waiting.withColumn("run_id", F.lit(this.id))
    return new.unionByName(waiting.select(*new.columns)).drop("record")


def _inputs(this: Run, records: Sequence[Records]) -> list[Input]:
    """The records of the feed's tables decoded, each input with the contract that they agree on."""
    known = reading.Known(
        this.control.contracts(this.feed.feed),
        partial(mask_orders.settled, this),
        partial(other_feeds.borrowed, this),
        partial(other_feeds.computed, this),
    )
    return reading.inputs(records, known)


def _prepare(this: Run, contracts: Mapping[str, Contract]) -> None:
    """Tables in their newest shape; what this stage writes gets a branch as main is now."""
    own = {this.dispositions: change.DISPOSITION_COLUMNS, this.quarantine: change.QUARANTINE_COLUMNS}
    shapes: dict[str, tuple[Contract, lake.Columns]] = {}
    for contract in contracts.values():
        names = this.names[contract.table]
        shapes[names.changes] = contract, change.ledger_columns(contract)
        shapes[names.history] = contract, change.history_columns(contract)
        shapes[names.current] = contract, change.current_columns(contract)
    there = set(catalog.tables(this.feed.namespace))
    published = refs.heads(there & shapes.keys(), refs.MAIN)
    for table, columns in own.items():
        if table not in there:
            lake.create(this.spark, table, columns)
        lake.fresh_branch(this.spark, table, this.branch)

    known = [table for table in shapes if table in there]
    if any(lake.each(lambda table: lake.narrow(this.spark, table, shapes[table][1]), known)):
        # Their snapshots hold columns that are gone now.
        this.control.forget_stages_of_others(this.feed.feed, this.window)

    def prepare(table: str) -> None:
        contract, columns = shapes[table]
        if table in there:
            lake.widen(this.spark, table, columns)
        else:
            lake.create(this.spark, table, columns)
        if table == this.names[contract.table].changes:
            branches.begin(this, table, contract, published.get(table))

    lake.each(prepare, shapes)


class Left(NamedTuple):
    """Records that became no row of the ledger (`settle.LEFT_COLUMNS`), and how many by disposition."""

    rows: Rows
    counts: Mapping[str, int]


def _write(this: Run, one: Input) -> Left:
    """Append the input's changes; return its other records."""
    if one.table is None or one.contract is None:
        rows = one.decoded.through(
            partial(settle.left, table=one.table, window_id=this.id), settle.LEFT_COLUMNS
        )
        return _left(rows)
    contract, names = one.contract, this.names[one.table]
    decoded = _joined(this, one.decoded, contract)
    made = _settled(this, decoded, contract, near.nothing(contract))
    published = near.published(this, contract, made[settle.CHANGES])
    if published is not None:
        # What stands at the positions of the window's changes is published already, or half of it.
        made = _settled(this, decoded, contract, published)
        replaced = made[settle.REPLACED].collected()
        if len(replaced):
            gone = as_frame(this.spark, Here(replaced))
            lake.delete_changes(gone, names.changes, this.branch)
    changes = made[settle.CHANGES]
    writes.append(this.spark, changes, names.changes, this.branch, change.ledger_columns(contract))
    left = _left(made[settle.LEFT])
    others = ", ".join(f"{count:,} {what}" for what, count in sorted(left.counts.items()))
    log.info("%s: %s: changes are written; beside them %s", this.feed.feed, one.table, others or "nothing")
    return left


def _joined(this: Run, decoded: Rows, contract: Contract) -> Rows:
    """The rows with the two of each update joined, where a dialect has two."""
    if not _of_pairs(decoded):
        return decoded
    kernel = settle.JoinPairs(TablePlan(this.feed, contract, contract, this.id))
    parts = {settle.NEW: Part(decoded, settle.KEY_OF_PAIRS)}
    return bucketed(parts, kernel, {settle.NEW: decoded.schema})[settle.NEW]


def _of_pairs(decoded: Rows) -> bool:
    return "pair_key" in decoded.schema.names


def _settled(this: Run, decoded: Rows, contract: Contract, published: Rows) -> dict[str, Rows]:
    parts = {settle.NEW: Part(decoded, settle.KEY), settle.NEAR: Part(published, settle.KEY)}
    kernel = settle.Settle(contract, this.id, _of_pairs(decoded))
    return bucketed(parts, kernel, settle.outputs(contract))


def _left(rows: Rows) -> Left:
    counted = (
        rows.through(_counted, _COUNTED).collected().group_by("disposition").aggregate([("rows", "sum")])
    )
    return Left(rows, {row["disposition"]: row["rows_sum"] for row in counted.to_pylist()})


def _counted(left: pa.RecordBatch) -> pa.RecordBatch:
    """`_COUNTED` of a batch."""
    counted = pc.value_counts(left.column("disposition"))
    return pa.RecordBatch.from_arrays(counted.flatten(), schema=_COUNTED)


def _write_dispositions(this: Run, left: Iterable[Left]) -> None:
    """Rows of `dispositions` for records that became no change; the quarantined ones also as they came."""
    found = [one for one in left if one.counts]
    if not found:
        return
    rows, counts = together([one.rows for one in found]), {what for one in found for what in one.counts}
    late = _late(this) if change.PENDING in counts else ()
    if late:
        rows = rows.through(partial(expired, late=late), settle.LEFT_COLUMNS)
    writes.append(this.spark, rows, this.dispositions, this.branch, change.DISPOSITION_COLUMNS)
    if late or change.QUARANTINED in counts:
        bad = rows.through(_quarantined, settle.LEFT_COLUMNS)
        writes.append(this.spark, bad, this.quarantine, this.branch, change.QUARANTINE_COLUMNS)


def _quarantined(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.filter(pc.equal(rows.column("disposition"), change.QUARANTINED))


def _forget_replayed(this: Run) -> None:
    """Take what was asked for again out of the quarantine of the runs before.

    The list itself belongs to no release: publish takes off it what the run has read.
    """
    asked = this.replayed()
    if asked is not None:
        lake.delete_records(asked, this.quarantine, this.branch)


def _late(this: Run) -> frozenset[tuple[str, int, int]]:
    """Topic, partition and offset of what has waited for longer than the feed allows."""
    if this.window.request.partial or not catalog.exists(this.pending):
        return frozenset()
    limit = this.window.end - this.feed.pending_limit
    late = lake.read(this.spark, this.pending).where(F.col("since") < F.lit(limit))
    return frozenset(tuple(row) for row in late.select("topic", "partition", "offset").collect())


def _write_pending(this: Run, some: bool) -> None:
    """What waits after this window, in place of what waited before it.

    A run over some tables has not looked at what waited: it adds its own. `some`: does anything wait now?
    """
    if not catalog.exists(this.pending):
        if not some:
            return
        lake.create(this.spark, this.pending, change.PENDING_COLUMNS)
    lake.fresh_branch(this.spark, this.pending, this.branch)
    earlier = lake.read(this.spark, this.pending)
    if not some and earlier.isEmpty():
        return
    waiting = (
        lake.read(this.spark, this.dispositions, this.branch)
        .where((F.col("run_id") == this.id) & (F.col("disposition") == change.PENDING))
        .select("record", "table", "reason")
    )
    earlier = earlier.withColumn("record", message_record())
    before = earlier.select("record", "since")
    since = F.coalesce("since", F.lit(this.window.start))
    messages = _messages(this).withColumn("record", message_record())
    rows = messages.join(waiting, "record").join(before, "record", "left").withColumn("since", since)
    if this.window.request.partial:
        rows = rows.unionByName(earlier.join(waiting.select("record"), "record", "left_anti"))
    lake.replace(rows.select(*(n for n, _ in change.PENDING_COLUMNS)), this.pending, this.branch)
