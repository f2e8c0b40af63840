"""Kernels that turn a bucket of decoded records into ledger rows.

They join the two rows of updates, drop repetitions, and join the halves of key updates. First the rows of an
update, which share `pair_key`, must share a bucket; then the rows that `resolve` names. A row of an update
has no id before it is joined, so these are two steps.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.dialects.messages.message_rows import OUTCOME
from changeledger.dialects.plan import TablePlan
from changeledger.dialects.tables import pairs
from changeledger.kernels.arrow import (
    batch_of,
    by_name,
    ledger_schema,
    table_of,
    table_schema,
    valid,
    with_column,
)
from changeledger.kernels.hashed import Hashes, hash_of
from changeledger.kernels.rows import as_batch
from changeledger.model import change
from changeledger.model.contract import Contract
from changeledger.reconcile.resolve import resolve

# The inputs of `ResolveChanges`: the window's decoded records, and published ledger rows near them.
NEW: Final = "new"
NEAR: Final = "near"
# Its outputs: new ledger rows; records that became no ledger row; published rows to remove.
CHANGES: Final = "changes"
OTHERS: Final = "others"
REPLACED: Final = "replaced"

# The disposition of a record that is not in the ledger, and the record as received.
OTHER_COLUMNS: Final = pa.schema([*table_schema(change.DISPOSITION_COLUMNS), *OUTCOME[3:]])
# Columns that tell a ledger row from all others, with Spark's types.
REPLACED_KEY: Final = tuple((name, "string") for name in ("change_id", "operation", "window_id"))
_REPLACED: Final = table_schema(REPLACED_KEY)


def key(rows: pa.RecordBatch) -> Hashes:
    """Hashes what must share a bucket (see `resolve`). A record without an id is hashed by its position."""
    placed = hash_of([rows.column("commit_lsn"), rows.column("change_lsn")])
    has_place = valid(rows.column("change_lsn"))
    if has_place.all():
        return placed
    return np.where(has_place, placed, _by("change_id", rows))


def key_of_pairs(rows: pa.RecordBatch) -> Hashes:
    return _by("pair_key", rows)


def _by(name: str, rows: pa.RecordBatch) -> Hashes:
    """Hashes that column, or the record's position where the column is NULL."""
    return np.where(
        valid(rows.column(name)), hash_of([rows.column(name)]), hash_of([rows.column("source_position")])
    )


def outputs(contract: Contract) -> dict[str, pa.Schema]:
    return {CHANGES: ledger_schema(contract), OTHERS: OTHER_COLUMNS, REPLACED: _REPLACED}


def join_pairs(tables: Mapping[str, pa.Table], plan: TablePlan) -> Mapping[str, pa.Table]:
    """Joins the two rows of each update. Rows with the same `pair_key` must share a bucket."""
    return {NEW: pa.Table.from_batches([pairs.joined(as_batch(tables[NEW]), plan)])}


@dataclass(frozen=True)
class ResolveChanges:
    """Kernel that resolves the changes of one table."""

    contract: Contract
    window_id: str
    # Whether the two rows of updates have been joined (`join_pairs`).
    of_pairs: bool

    def __call__(self, tables: Mapping[str, pa.Table]) -> Mapping[str, pa.Table]:
        decoded = as_batch(tables[NEW])
        schema, disposition = ledger_schema(self.contract), decoded.column("disposition")
        is_change = pc.equal(disposition, change.CHANGE)
        new = pa.Table.from_batches([decoded.filter(is_change).select(schema.names)])
        resolved = resolve(new, tables[NEAR], self.contract, self.window_id)
        # A before row is in the ledger as part of its change.
        in_ledger = is_change
        if self.of_pairs:
            in_ledger = pc.or_(is_change, pc.equal(disposition, change.PAIRED))
        others = others_of(decoded.filter(pc.invert(in_ledger)), self.contract.table, self.window_id)
        # A repetition has NULL for the record as received.
        repeats = table_of(by_name(resolved.duplicates), OTHER_COLUMNS)
        return {
            CHANGES: resolved.changes,
            OTHERS: pa.concat_tables([pa.Table.from_batches([others]), repeats]),
            REPLACED: resolved.replaced.select(_REPLACED.names),
        }


def others_of(decoded: pa.RecordBatch, table: str | None, window_id: str) -> pa.RecordBatch:
    """Returns `OTHER_COLUMNS` of records that became no change."""
    # Missing columns become NULL: a record of no table has no position in the log.
    return batch_of({**by_name(decoded), "window_id": window_id, "table": table}, OTHER_COLUMNS)


def not_chosen(rows: pa.RecordBatch, tables: Sequence[str]) -> pa.RecordBatch:
    """Marks records of these tables as not chosen for this run. `tables`: names in lower case."""
    is_other = pc.and_(
        pc.equal(rows.column("reason"), change.TABLE_NOT_IN_FEED),
        pc.is_in(pc.utf8_lower(rows.column("detail")), pa.array(tables, pa.string())),
    )
    reason = pc.if_else(is_other.fill_null(False), change.TABLE_NOT_CHOSEN, rows.column("reason"))
    return with_column(rows, "reason", reason)


def expired(rows: pa.RecordBatch, late: Collection[tuple[str, int, int]]) -> pa.RecordBatch:
    """Quarantines pending rows that are `late` (topic, partition and offset). They keep their reason."""
    disposition = rows.column("disposition")
    places = zip(*(rows.column("source_position").field(n).to_pylist() for n in range(3)), strict=True)
    is_late = pa.array([place in late for place in places], pa.bool_())
    is_expired = pc.and_(is_late, pc.equal(disposition, change.PENDING))
    return with_column(rows, "disposition", pc.if_else(is_expired, change.QUARANTINED, disposition))
