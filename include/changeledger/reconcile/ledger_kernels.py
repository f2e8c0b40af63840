"""A bucket of decoded records on its way into the ledger: rows of updates, repetitions, updates of keys.

What must be in one bucket: first the rows of an update, which share `pair_key`; then what `resolve` says. A
row of an update has no id before it is joined, so these are two steps.
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

# The inputs of `resolved`: the window's decoded records, and published ledger rows near them.
NEW: Final = "new"
NEAR: Final = "near"
# Its outputs: rows for the ledger; records that became no change of it; published rows that go.
CHANGES: Final = "changes"
OTHERS: Final = "others"
REPLACED: Final = "replaced"

# What is said of a record that is no row of the ledger, and the record as it came.
OTHER_COLUMNS: Final = pa.schema([*table_schema(change.DISPOSITION_COLUMNS), *OUTCOME[3:]])
REPLACED_COLUMNS: Final = table_schema(
    [
        pair
        for pair in change.LEDGER_COLUMNS
        if pair[0] in {"change_id", "source_position", "operation", "window_id"}
    ]
)


def key(rows: pa.RecordBatch) -> Hashes:
    """What must be in one bucket: see `resolve`. A record without an id is in one of its own."""
    placed = hash_of([rows.column("commit_lsn"), rows.column("change_lsn")])
    has_place = valid(rows.column("change_lsn"))
    if has_place.all():
        return placed
    return np.where(has_place, placed, _by("change_id", rows))


def key_of_pairs(rows: pa.RecordBatch) -> Hashes:
    return _by("pair_key", rows)


def _by(name: str, rows: pa.RecordBatch) -> Hashes:
    """By that column; where it is NULL, by the record."""
    return np.where(
        valid(rows.column(name)), hash_of([rows.column(name)]), hash_of([rows.column("source_position")])
    )


def outputs(contract: Contract) -> dict[str, pa.Schema]:
    return {CHANGES: ledger_schema(contract), OTHERS: OTHER_COLUMNS, REPLACED: REPLACED_COLUMNS}


def join_pairs(tables: Mapping[str, pa.Table], plan: TablePlan) -> Mapping[str, pa.Table]:
    """The two rows of each update joined; the rows of one `pair_key` must be in one bucket."""
    return {NEW: pa.Table.from_batches([pairs.joined(as_batch(tables[NEW]), plan)])}


@dataclass(frozen=True)
class ResolveChanges:
    """The kernel of one table."""

    contract: Contract
    window_id: str
    # Have the two rows of updates been joined (`join_pairs`)?
    of_pairs: bool

    def __call__(self, tables: Mapping[str, pa.Table]) -> Mapping[str, pa.Table]:
        decoded = as_batch(tables[NEW])
        schema, disposition = ledger_schema(self.contract), decoded.column("disposition")
        is_change = pc.equal(disposition, change.CHANGE)
        new = pa.Table.from_batches([decoded.filter(is_change).select(schema.names)])
        resolved = resolve(new, tables[NEAR], self.contract, self.window_id)
        # The ledger itself has a before row in its change.
        in_ledger = is_change
        if self.of_pairs:
            in_ledger = pc.or_(is_change, pc.equal(disposition, change.PAIRED))
        others = others_of(decoded.filter(pc.invert(in_ledger)), self.contract.table, self.window_id)
        # NULL where nothing says it: how a repetition came.
        repeats = table_of(by_name(resolved.duplicates), OTHER_COLUMNS)
        return {
            CHANGES: resolved.changes,
            OTHERS: pa.concat_tables([pa.Table.from_batches([others]), repeats]),
            REPLACED: resolved.replaced.select(REPLACED_COLUMNS.names),
        }


def others_of(decoded: pa.RecordBatch, table: str | None, window_id: str) -> pa.RecordBatch:
    """`OTHER_COLUMNS` of records that became no change."""
    # NULL where nothing says it: where a record of no table stands.
    return batch_of({**by_name(decoded), "window_id": window_id, "table": table}, OTHER_COLUMNS)


def not_chosen(rows: pa.RecordBatch, tables: Sequence[str]) -> pa.RecordBatch:
    """Records of these tables say that nobody asked for them. `tables`: in lower case."""
    is_other = pc.and_(
        pc.equal(rows.column("reason"), change.TABLE_NOT_IN_FEED),
        pc.is_in(pc.utf8_lower(rows.column("detail")), pa.array(tables, pa.string())),
    )
    reason = pc.if_else(is_other.fill_null(False), change.TABLE_NOT_CHOSEN, rows.column("reason"))
    return with_column(rows, "reason", reason)


def expired(rows: pa.RecordBatch, late: Collection[tuple[str, int, int]]) -> pa.RecordBatch:
    """Pending rows that are `late` (topic, partition and offset) are quarantined, with the reason for which
    they waited."""
    disposition = rows.column("disposition")
    places = zip(*(rows.column("source_position").field(n).to_pylist() for n in range(3)), strict=True)
    is_late = pa.array([place in late for place in places], pa.bool_())
    is_expired = pc.and_(is_late, pc.equal(disposition, change.PENDING))
    return with_column(rows, "disposition", pc.if_else(is_expired, change.QUARANTINED, disposition))
