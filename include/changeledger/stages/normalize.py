"""Normalize: raw records into canonical changes, on the run's branch.

Each record is parsed once, on its way into the ledger; the dispositions of all records are counted as
they pass. Only when there are others than changes is the input read again, for those.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from changeledger import change, images
from changeledger.config import Feed, Window
from changeledger.contract import Contract
from changeledger.dialects.base import MessageDialect, Sample
from changeledger.errors import ContractError
from changeledger.reconcile import pairs
from changeledger.stages.run import Run, log, union
from changeledger.storage import lake

# Messages looked at, at either end of each partition, to learn tables and contracts.
_SAMPLES = 20
_KEPT_BY_THE_LEDGER = (change.CHANGE, change.PAIRED)


@dataclass(frozen=True)
class Input:
    """The decoded records of one table, or of all topics without a table of the feed."""

    table: str | None
    contract: Contract | None
    decoded: DataFrame


def run(spark: SparkSession, feed: Feed, window: Window) -> None:
    """Raises ContractError where a feed tells of a table what its contract rules out."""
    this = Run.begin(spark, feed, window)
    if this is None:
        return
    inputs = _message_inputs(this) if isinstance(this.dialect, MessageDialect) else _table_inputs(this)
    _prepare(this, [i.contract for i in inputs if i.contract is not None])
    left = [left for left in this.each(lambda one: _write(this, one), inputs) if left is not None]
    if left:
        _write_dispositions(this, left)
    this.mark_done("normalize")


def _table_inputs(this: Run) -> list[Input]:
    this.opened("normalize")
    inputs = []
    for table in this.names:
        contract = this.control.contract(this.feed.feed, table)
        assert contract is not None, "extract stores it with the rows"
        raw = lake.read(this.spark, this.raw_table(table)).where(F.col("run_id") == this.id)
        inputs.append(Input(table, contract, this.dialect.decode(raw, contract, this.feed)))
    return inputs


def _message_inputs(this: Run) -> list[Input]:
    dialect = this.dialect
    assert isinstance(dialect, MessageDialect)
    stored = this.opened("normalize")
    raw = lake.read(this.spark, this.raw_messages).where(F.col("run_id") == this.id)
    told = dialect.discover(_samples(raw, stored.from_position or {}, stored.to_position), this.feed)
    inputs = []
    topics: dict[str, list[str]] = {}
    for topic, table in told.tables.items():
        topics.setdefault(table, []).append(topic)
    for table, of_table in topics.items():
        contract = _agreed(this, table, told.contracts.get(table))
        records = raw.where(F.col("topic").isin(of_table))
        inputs.append(Input(table, contract, dialect.decode(records, contract, this.feed)))
    others = raw.where(~F.col("topic").isin(list(told.tables)))
    inputs.append(Input(None, None, dialect.decode_other(others)))
    return inputs


def _samples(
    raw: DataFrame, start: dict[str, dict[str, int]], end: dict[str, dict[str, int]]
) -> Sequence[Sample]:
    """The first and last messages of every partition, in order."""
    ends: Column | None = None
    for topic, partitions in end.items():
        for partition, last in partitions.items():
            first = start.get(topic, {}).get(partition, 0)
            if first == last:
                continue
            offset = F.col("offset")
            near = (offset < first + _SAMPLES) | (offset >= last - _SAMPLES)
            here = (F.col("topic") == topic) & (F.col("partition") == int(partition)) & near
            ends = here if ends is None else ends | here
    if ends is None:
        return []
    rows = raw.where(ends).select("topic", "partition", "offset", "key", "value").collect()
    return [
        Sample(row["topic"], row["key"], row["value"])
        for row in sorted(rows, key=lambda row: (row["topic"], row["offset"], row["partition"]))
    ]


def _agreed(this: Run, table: str, told: Contract | None) -> Contract:
    """The table's contract with what this window tells, stored as a new version where it differs."""
    known = this.control.contract(this.feed.feed, table)
    if told is None and known is None:
        raise ContractError(
            f"the messages of {table} do not tell its columns: they have no schema block",
            f"state `columns:` (and `key:`) for {table} in the feed's YAML, or let the connector send them",
        )
    contract = told if known is None else known if told is None else known.evolved_to(told)
    assert contract is not None, "one of both is there"
    this.control.save_contract(this.feed.feed, contract.checked(), this.id)
    return contract


def _prepare(this: Run, contracts: Sequence[Contract]) -> None:
    """Tables in their newest shape; what this stage writes gets a branch as main is now."""
    lake.create(this.spark, this.dispositions, change.DISPOSITION_COLUMNS)
    lake.create(this.spark, this.quarantine, change.QUARANTINE_COLUMNS)
    shapes: dict[str, lake.Columns] = {this.dispositions: (), this.quarantine: ()}
    for contract in contracts:
        names = this.names[contract.table]
        shapes[names.changes] = change.ledger_columns(contract)
        shapes[names.history] = change.history_columns(contract)
        shapes[names.current] = change.current_columns(contract)

    built = {this.dispositions, this.quarantine, *(this.names[c.table].changes for c in contracts)}

    def prepare(table: str) -> None:
        if shapes[table]:
            lake.create(this.spark, table, shapes[table])
            lake.widen(this.spark, table, shapes[table])
        if table in built:
            lake.fresh_branch(this.spark, table, this.branch)

    this.each(prepare, shapes)


@dataclass(frozen=True)
class Left:
    """Records that became no change, and whether some of them may be bad."""

    records: DataFrame
    quarantined: bool


def _write(this: Run, one: Input) -> Left | None:
    """Append the input's changes; return its other records, where there are any."""
    if one.table is None or one.contract is None:
        return Left(_told(this, one.table, one.decoded), quarantined=True)
    records = (
        pairs.join_images(one.decoded)
        if this.dialect.images_apart
        else one.decoded.withColumn("paired_record", F.lit(None).cast(change.RECORD_TYPE))
    )
    seen = Observation(f"dispositions of {one.table}")
    counted = records.observe(
        seen,
        F.count(F.lit(1)).alias("records"),
        *(F.count_if(F.col("disposition") == d).alias(d) for d in (*_KEPT_BY_THE_LEDGER, change.QUARANTINED)),
    )
    changes = counted.where(F.col("disposition") == change.CHANGE)
    lake.append(_ledger_rows(this, changes, one.contract), this.names[one.table].changes, this.branch)
    found = seen.get
    others = found["records"] - sum(found[d] for d in _KEPT_BY_THE_LEDGER)
    log.info("%s: %s: %d records, %d changes", this.feed.feed, one.table, found["records"], found["change"])
    if not others:
        return None
    # Spark moves no filter past what is observed; into the decoding it would copy all of that.
    apart = records.observe(f"records of {one.table} again", F.count(F.lit(1)).alias("records"))
    others_only = apart.where(~F.col("disposition").isin(*_KEPT_BY_THE_LEDGER))
    return Left(_told(this, one.table, others_only), quarantined=found[change.QUARANTINED] > 0)


def _ledger_rows(this: Run, changes: DataFrame, contract: Contract) -> DataFrame:
    position = [F.col(c) for c in ("operation", "sort_key")]
    # Where the source tells no position, the same words elsewhere are another change.
    unplaced = F.when(F.col("commit_lsn").isNull(), F.col("record"))
    change_id = images.fingerprint(
        [F.lit(contract.table), *position, unplaced], [F.col("before"), F.col("after")], contract
    )
    before, after = (images.fields(F.col(side), contract) for side in ("before", "after"))
    gaps = F.col("before_gaps"), F.col("after_gaps")
    shown = images.without_gaps(images.differing(before, after, contract.names), *gaps)
    masked = F.col("mask").isNotNull() & F.col("changed").isNotNull() & F.col("before").isNotNull()
    disagrees = F.when(masked, shown != images.without_gaps(F.col("changed"), *gaps))
    flags = F.when(disagrees, pairs.with_flag(F.col("flags"), change.MASK_DISAGREES)).otherwise(
        F.col("flags")
    )
    rows = changes.withColumns(
        {
            "change_id": change_id,
            "flags": flags,
            "feed": F.lit(this.feed.feed),
            "dialect": F.lit(this.feed.dialect),
            "paired_change_id": F.lit(None).cast("string"),
            "run_id": F.lit(this.id),
        }
    )
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
    told = union([one.records for one in left])
    lake.append(told.select(*(n for n, _ in change.DISPOSITION_COLUMNS)), this.dispositions, this.branch)
    bad = [one.records for one in left if one.quarantined]
    if bad:
        kept = union(bad).where(F.col("disposition") == change.QUARANTINED)
        lake.append(kept.select(*(n for n, _ in change.QUARANTINE_COLUMNS)), this.quarantine, this.branch)
