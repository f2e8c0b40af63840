"""Records of a window that became no row of the ledger: what is said of them, and bad ones as they came."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from changeledger.kernels.arrow import with_column
from changeledger.kernels.hashed import by
from changeledger.kernels.rows import Part, Rows, kept, together, where
from changeledger.lake import writes
from changeledger.model import change
from changeledger.reconcile import ledger_kernels
from changeledger.stages.common.context import StageContext
from changeledger.stages.normalization import waiting

_COUNTED: Final = pa.schema([("disposition", pa.string()), ("rows", pa.int64())])


class OtherRecords(NamedTuple):
    """Records that became no row of the ledger (`ledger_kernels.LEFT_COLUMNS`), counted by disposition."""

    rows: Rows
    counts: Mapping[str, int]


def of_no_table(rows: Rows) -> OtherRecords:
    """Dealt out with the changes of tables: else all messages would be read for these records alone."""
    parts = {ledger_kernels.LEFT: Part(rows, by("source_position"))}
    return counted(kept(parts)[ledger_kernels.LEFT])[0]


def not_chosen(ctx: StageContext, others: Rows) -> Rows:
    """Decoded records of no table of the run; those of the feed's other tables say that nobody asked."""
    if not ctx.window.request.partial:
        return others
    tables = [config.table.lower() for config in ctx.whole.tables if config not in ctx.feed.tables]
    return others.through(partial(_not_chosen, tables=tables), others.schema)


def _not_chosen(rows: pa.RecordBatch, tables: Sequence[str]) -> pa.RecordBatch:
    is_other = pc.and_(
        pc.equal(rows.column("reason"), change.TABLE_NOT_IN_FEED),
        pc.is_in(pc.utf8_lower(rows.column("detail")), pa.array(tables, pa.string())),
    )
    reason = pc.if_else(is_other.fill_null(False), change.TABLE_NOT_CHOSEN, rows.column("reason"))
    return with_column(rows, "reason", reason)


def counted(rows: Rows, others: Sequence[Rows] = ()) -> tuple[OtherRecords, list[pa.Table]]:
    """By one job with the other rows that are collected."""
    by_batch, *collected = rows.through(_by_disposition, _COUNTED).collected_with(others)
    sums = by_batch.group_by("disposition").aggregate([("rows", "sum")]).to_pylist()
    return OtherRecords(rows, {row["disposition"]: row["rows_sum"] for row in sums}), collected


def _by_disposition(left: pa.RecordBatch) -> pa.RecordBatch:
    """`_COUNTED` of a batch."""
    counted = pc.value_counts(left.column("disposition"))
    return pa.RecordBatch.from_arrays(counted.flatten(), schema=_COUNTED)


def to_be_written(ctx: StageContext, left: Iterable[OtherRecords]) -> list[writes.TableChange]:
    """Rows of `dispositions` for records that became no change; the quarantined ones also as they came."""
    some = [records for records in left if records.counts]
    if not some:
        return []
    rows = together([records.rows for records in some])
    counts = {what for records in some for what in records.counts}
    late = waiting.late(ctx) if change.PENDING in counts else ()
    if late:
        rows = rows.through(partial(_expired, late=late), rows.schema)
    said = writes.TableChange(ctx.lake.dispositions, ctx.branch, rows, change.DISPOSITION_COLUMNS)
    if not late and change.QUARANTINED not in counts:
        return [said]
    bad = where(rows, "disposition", change.QUARANTINED)
    return [said, writes.TableChange(ctx.lake.quarantine, ctx.branch, bad, change.QUARANTINE_COLUMNS)]


def _expired(rows: pa.RecordBatch, late: Collection[tuple[str, int, int]]) -> pa.RecordBatch:
    """Pending rows that are `late` (topic, partition and offset) are quarantined, with the reason for which
    they waited."""
    disposition = rows.column("disposition")
    places = zip(*(rows.column("source_position").field(n).to_pylist() for n in range(3)), strict=True)
    is_late = pa.array([place in late for place in places], pa.bool_())
    is_expired = pc.and_(is_late, pc.equal(disposition, change.PENDING))
    return with_column(rows, "disposition", pc.if_else(is_expired, change.QUARANTINED, disposition))
