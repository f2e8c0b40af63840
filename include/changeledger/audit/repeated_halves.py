"""The rule for repeated halves of updates.

A repeated half names no change. It is found by its place in the source, which is that of the first one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from changeledger.audit.narrow_rows import NARROW, Broken, Judged, narrow, rows_that
from changeledger.kernels import order
from changeledger.kernels.arrow import RECORD, column, valid
from changeledger.kernels.hashed import Hashes, hash_of

# Inputs: the run's repeated halves; records of the ledger, and of the run that became something else.
HALVES: Final = "halves"
ACCOUNTED: Final = "accounted"

RECORDS: Final = pa.schema([("source_position", RECORD)])


def key(rows: pa.RecordBatch) -> Hashes:
    """Hashes the source and the row."""
    source, _, _, row = rows.column("source_position").flatten()
    return hash_of([source, row])


def records_of(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Returns `RECORDS` of ledger rows: their own, and those that they are paired with."""
    both = [rows.column(name).drop_null() for name in ("source_position", "paired_source_position")]
    return pa.RecordBatch.from_arrays([pa.concat_arrays(both)], schema=RECORDS)


def of_places(tables: Mapping[str, pa.Table], table: str) -> Mapping[str, pa.Table]:
    """Kernel of the rule for single places."""
    halves = tables[HALVES]
    rule = {"duplicates_leave_one": lambda: _halves(halves, tables[ACCOUNTED])}
    return {NARROW: narrow(Judged(table, halves, position="source_position"), rule)}


def _halves(halves: pa.Table, ledger: pa.Table) -> Broken:
    half, others = (column(table, "source_position").flatten() for table in (halves, ledger))
    # Source and row only: the field between them numbers repeated rows.
    stands = order.are_among([half[0], half[3]], [others[0], others[3]]) & valid(half[3])
    return rows_that(~stands, "the record repeats half of an update that is not in the ledger")
