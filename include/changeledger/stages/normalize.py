"""Normalize: raw records into canonical changes, on the run's branch.

Each record is parsed once, on its way into the ledger; the dispositions of all records are counted as
they pass. Only when there are others than changes is the input read again, for those.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from changeledger import change
from changeledger.contract import Contract
from changeledger.dialects.base import Known, MessageDialect, Told, message_record
from changeledger.plans import Keep, at_hand, sealed
from changeledger.stages import branches, mask_orders, other_feeds, reading, repairing
from changeledger.stages.reading import Input, union
from changeledger.stages.run import Run, log, stage
from changeledger.storage import lake


@stage
def run(this: Run) -> None:
    """Raises ContractError where a table's columns cannot be published."""
    this.opened("normalize")
    this.control.begin_stage(this.feed.feed, this.window, "normalize")
    is_told_by_messages = isinstance(this.dialect, MessageDialect)
    with at_hand() as keep:
        inputs = _message_inputs(this, keep) if is_told_by_messages else _table_inputs(this)
        inputs += repairing.inputs(this)
        of_window = {i.contract.table: i.contract.checked() for i in inputs if i.contract is not None}
        # A table without a record in the window has its branch, too: the later stages expect it.
        _prepare(this, {**this.contracts(), **of_window})
        left = [left for left in lake.each(lambda one: _write(this, one), inputs) if left is not None]
        if left:
            _write_dispositions(this, left)
    if is_told_by_messages:
        _write_pending(this)
    _forget_replayed(this)
    this.finish("normalize", this.written, of_window.values())


def _table_inputs(this: Run) -> list[Input]:
    shapes = this.control.shapes(this.feed.feed)
    told = []
    for table in this.names:
        raw = this.raw(this.raw_table(table))
        of_table = {instance: shape for instance, shape in shapes.items() if shape.table == table}
        for instance, shape in of_table.items():
            records = raw.where(F.col("_instance") == instance) if len(of_table) > 1 else raw
            told.append(Told(table, shape, records))
    return _decoded(this, told)


def _message_inputs(this: Run, keep: Keep) -> list[Input]:
    dialect, control = this.dialect, this.control
    assert isinstance(dialect, MessageDialect)
    name = this.feed.feed
    known = Known(control.contracts(name), control.shapes(name), control.writer_schemas(name), keep)
    survey = dialect.survey(_messages(this), this.feed, known)
    for shape_id, shape in survey.shapes.items():
        control.save_shape(name, shape_id, shape, this.id)
    for schema_id, schema in survey.schemas.items():
        control.save_writer_schema(name, schema_id, schema, this.id)
    others = dialect.decode_other(survey.others, this.feed)
    return [*_decoded(this, survey.told), Input(None, None, others)]


def _messages(this: Run) -> DataFrame:
    """The window's messages, and those that earlier windows have left to wait."""
    new = this.raw(this.raw_messages)
    waiting = this.waiting()
    if waiting is None:
        return new.drop("record")
    waiting = waiting.withColumn("run_id", F.lit(this.id))
    return new.unionByName(waiting.select(*new.columns)).drop("record")


def _decoded(this: Run, told: Sequence[Told]) -> list[Input]:
    """The records of the feed's tables decoded, each input with the contract that they agree on."""
    contracts = this.control.contracts(this.feed.feed)
    known = reading.Known(
        contracts,
        partial(mask_orders.settled, this),
        partial(other_feeds.borrowed, this),
        partial(other_feeds.computed, this),
    )
    return reading.inputs(this.dialect, this.feed, told, known)


def _prepare(this: Run, contracts: Mapping[str, Contract]) -> None:
    """Tables in their newest shape; what this stage writes gets a branch as main is now."""
    lake.create(this.spark, this.dispositions, change.DISPOSITION_COLUMNS)
    lake.create(this.spark, this.quarantine, change.QUARANTINE_COLUMNS)
    for table in (this.dispositions, this.quarantine):
        lake.fresh_branch(this.spark, table, this.branch)
    shapes: dict[str, tuple[Contract, lake.Columns]] = {}
    for contract in contracts.values():
        names = this.names[contract.table]
        shapes[names.changes] = contract, change.ledger_columns(contract)
        shapes[names.history] = contract, change.history_columns(contract)
        shapes[names.current] = contract, change.current_columns(contract)

    if any(lake.each(lambda table: lake.narrow(this.spark, table, shapes[table][1]), shapes)):
        # Their snapshots hold columns that are gone now.
        this.control.forget_stages_of_others(this.feed.feed, this.window)

    def prepare(table: str) -> None:
        contract, columns = shapes[table]
        lake.create(this.spark, table, columns)
        lake.widen(this.spark, table, columns)
        if table == this.names[contract.table].changes:
            branches.begin(this, table, contract)

    lake.each(prepare, shapes)


@dataclass(frozen=True)
class Left:
    """Records that became no change, and whether some of them may be bad."""

    records: DataFrame
    quarantined: bool


def _write(this: Run, one: Input) -> Left | None:
    """Append the input's changes; return its other records, where there are any."""
    if one.table is None or one.contract is None:
        return Left(_told(this, one.table, one.decoded), quarantined=True)
    records = reading.settled_pairs(one.decoded, this.dialect)
    # The ledger itself tells of a before record that it holds in a change.
    kept = (change.CHANGE, change.PAIRED) if this.dialect.images_apart else (change.CHANGE,)
    seen = Observation(f"dispositions of {one.table}")
    counted = records.observe(
        seen,
        F.count(F.lit(1)).alias("records"),
        *(F.count_if(F.col("disposition") == d).alias(d) for d in (change.CHANGE, change.QUARANTINED)),
        F.count_if(F.col("disposition").isin(*kept)).alias("kept"),
    )
    changes = counted.where(F.col("disposition") == change.CHANGE)
    lake.append(_ledger_rows(this, changes, one.contract), this.names[one.table].changes, this.branch)
    found = seen.get
    log.info("%s: %s: %d records, %d changes", this.feed.feed, one.table, found["records"], found["change"])
    if found["records"] == found["kept"]:
        return None
    others_only = sealed(records).where(~F.col("disposition").isin(*kept))
    return Left(_told(this, one.table, others_only), quarantined=found[change.QUARANTINED] > 0)


def _ledger_rows(this: Run, changes: DataFrame, contract: Contract) -> DataFrame:
    rows = reading.ledger_columns(changes, contract, this.feed).withColumn("run_id", F.lit(this.id))
    return rows.select(*(F.col(name).cast(kind) for name, kind in change.ledger_columns(contract)))


def _told(this: Run, table: str | None, records: DataFrame) -> DataFrame:
    """What the tables of dispositions and of quarantine hold of a record."""
    return records.select(
        F.lit(this.id).alias("run_id"),
        F.lit(table).cast("string").alias("table"),
        "record", "disposition", "reason", "detail", "raw_key", "raw_value", "raw_headers",
    )  # fmt: skip


def _write_dispositions(this: Run, left: Sequence[Left]) -> None:
    """Rows of `dispositions` for records that became no change; the quarantined ones also as they came."""
    told = [one.records for one in left]
    bad = [one.records for one in left if one.quarantined]
    late = _late(this)
    if late is not None:
        told = bad = [_without_the_late(records, late) for records in told]
    rows = union(told).select(*(n for n, _ in change.DISPOSITION_COLUMNS))
    lake.append(rows, this.dispositions, this.branch)
    if bad:
        kept = union(bad).where(F.col("disposition") == change.QUARANTINED)
        lake.append(kept.select(*(n for n, _ in change.QUARANTINE_COLUMNS)), this.quarantine, this.branch)


def _forget_replayed(this: Run) -> None:
    """Take what was asked for again out of the quarantine of the runs before.

    The list itself belongs to no release: publish takes off it what the run has read.
    """
    asked = this.replayed()
    if asked is not None:
        lake.delete_records(asked, this.quarantine, this.branch)


def _late(this: Run) -> DataFrame | None:
    """`record` of what has waited for longer than the feed allows; None where nothing has."""
    if this.window.request.partial or not lake.exists(this.spark, this.pending):
        return None
    limit = this.window.end - this.feed.pending_limit
    late = lake.read(this.spark, this.pending).where(F.col("since") < F.lit(limit))
    records = late.select(message_record().alias("record"))
    return None if records.isEmpty() else records


def _without_the_late(records: DataFrame, late: DataFrame) -> DataFrame:
    """Records that have waited for too long are quarantined with the reason for which they waited."""
    marked = records.join(late.withColumn("late", F.lit(True)), "record", "left")
    expired = F.col("late") & (F.col("disposition") == change.PENDING)
    return marked.withColumn(
        "disposition", F.when(expired, F.lit(change.QUARANTINED)).otherwise(F.col("disposition"))
    ).select(*records.columns)


def _write_pending(this: Run) -> None:
    """What waits after this window, in place of what waited before it.

    A run over some tables has not looked at what waited: it adds its own.
    """
    told = lake.read(this.spark, this.dispositions, this.branch).where(
        (F.col("run_id") == this.id) & (F.col("disposition") == change.PENDING)
    )
    if not lake.exists(this.spark, this.pending):
        if told.isEmpty():
            return
        lake.create(this.spark, this.pending, change.PENDING_COLUMNS)
    lake.fresh_branch(this.spark, this.pending, this.branch)
    waiting = told.select("record", "table", "reason")
    earlier = lake.read(this.spark, this.pending).withColumn("record", message_record())
    before = earlier.select("record", "since")
    since = F.coalesce("since", F.lit(this.window.start))
    messages = _messages(this).withColumn("record", message_record())
    rows = messages.join(waiting, "record").join(before, "record", "left").withColumn("since", since)
    if this.window.request.partial:
        rows = rows.unionByName(earlier.join(waiting.select("record"), "record", "left_anti"))
    lake.replace(rows.select(*(n for n, _ in change.PENDING_COLUMNS)), this.pending, this.branch)
