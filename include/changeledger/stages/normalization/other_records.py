"""Records of a window that became no row of the ledger: their dispositions, and the quarantine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import pyarrow as pa

from changeledger.kernels.hashed import by
from changeledger.kernels.rows import Part, Rows, kept, summed, together, values_counted, where
from changeledger.lake import writes
from changeledger.model import change
from changeledger.reconcile import ledger_kernels
from changeledger.stages.common.context import StageContext
from changeledger.stages.normalization import waiting


class OtherRecords(NamedTuple):
    """Records that became no row of the ledger (`ledger_kernels.OTHER_COLUMNS`), counted by disposition."""

    rows: Rows
    counts: Mapping[str, int]


def of_no_table(rows: Rows) -> OtherRecords:
    """Buckets the records along with the changes of tables, so that messages are not read for them alone."""
    parts = {ledger_kernels.OTHERS: Part(rows, by("source_position"))}
    return counted(kept(parts)[ledger_kernels.OTHERS])[0]


def not_chosen(ctx: StageContext, others: Rows) -> Rows:
    """Gives records of the feed's tables that the run did not choose the reason `TABLE_NOT_CHOSEN`."""
    if not ctx.window.request.partial:
        return others
    tables = [config.table.lower() for config in ctx.whole.tables if config not in ctx.feed.tables]
    return others.through(partial(ledger_kernels.not_chosen, tables=tables), others.schema)


def counted(rows: Rows, others: Sequence[Rows] = ()) -> tuple[OtherRecords, list[pa.Table]]:
    """Counts the records by disposition, and collects the other rows in the same job."""
    by_batch, *collected = values_counted(rows, "disposition").collected_with(others)
    return OtherRecords(rows, summed(by_batch)), collected


def to_be_written(ctx: StageContext, of_inputs: Iterable[OtherRecords]) -> list[writes.TableChange]:
    """Returns the rows of `dispositions`, and of `quarantine` for the quarantined records."""
    some = [records for records in of_inputs if records.counts]
    if not some:
        return []
    rows = together([records.rows for records in some])
    counts = {what for records in some for what in records.counts}
    late = waiting.late(ctx) if change.PENDING in counts else ()
    if late:
        rows = rows.through(partial(ledger_kernels.expired, late=late), rows.schema)
    said = writes.TableChange(ctx.lake.dispositions, ctx.branch, rows)
    if not late and change.QUARANTINED not in counts:
        return [said]
    bad = where(rows, "disposition", change.QUARANTINED)
    return [said, writes.TableChange(ctx.lake.quarantine, ctx.branch, bad)]
