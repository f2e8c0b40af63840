"""Rows of a source, current rows and versions in history, in one narrow form: a hash per cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa

from changeledger.compare.cells import HASHES, CellHashes, Numbers, folded, of_cells
from changeledger.compare.columns import Columns
from changeledger.compare.matching import group_numbers
from changeledger.kernels import images, ledger
from changeledger.kernels.arrow import Bools, Bytes, batch_of, by_name, column, equal
from changeledger.kernels.cells import KNOWN, UNAVAILABLE
from changeledger.kernels.hashed import by
from changeledger.model.change import SNAPSHOT, UNFIT_COLUMNS
from changeledger.model.contract import Column
from changeledger.verify.fence import Fence

# The part that a row is of: rows of the source, published current rows, or versions in history.
SOURCE, CURRENT, HISTORY = range(3)

# The number of buckets into which the rows of a table are hashed. What differs in a bucket is looked for in
# that small part of the table.
BUCKETS: Final = 4096

# The columns read from current rows, and from history, besides the contract's.
OF_CURRENT: Final = ("_unknown_columns", "_change_id", "_sort_key")
OF_HISTORY: Final = (
    *OF_CURRENT, "_next_sort_key", "_is_deleted", "_valid_from", "_commit_lsn", "_operation",
)  # fmt: skip

VERSIONS: Final = pa.schema(
    [
        ("part", pa.int32()),
        ("key_1", pa.int64()),
        ("key_2", pa.int64()),
        ("bucket", pa.int32()),
        # With NULL for an unknown cell.
        ("cells", HASHES),
        ("has_gaps", pa.bool_()),
        ("change_id", pa.string()),
        ("sort_key", pa.binary()),
        ("next_sort_key", pa.binary()),
        ("is_deleted", pa.bool_()),
        # History only: a snapshot row began the version.
        ("is_loaded", pa.bool_()),
        ("is_behind", pa.bool_()),
        ("is_begun", pa.bool_()),
    ]
)
# The hash of a source's value that does not fit the column's type: it equals no published value.
_UNFIT: Final = np.int64(-0x756E666974)
# The bucket key, equal for all rows of one key.
KEY: Final = by("key_1")


@dataclass(frozen=True)
class Read:
    """How rows of one part are read. `columns`: the snapshot's as reference, the published ones as other."""

    part: int
    columns: Columns
    fence: Fence

    @property
    def own(self) -> Sequence[Column]:
        return self.columns.reference if self.part == SOURCE else self.columns.other

    @property
    def names(self) -> list[str]:
        """The names of the compared columns in this part."""
        return [c.name for c in self.own]

    @property
    def needed(self) -> list[str]:
        """The columns to read."""
        return [*self.names, *{SOURCE: (UNFIT_COLUMNS,), CURRENT: OF_CURRENT, HISTORY: OF_HISTORY}[self.part]]

    def states(self, rows: pa.RecordBatch) -> Bytes | None:
        """n x columns: the states of unknown cells, or None if all cells are known."""
        if self.part != SOURCE:
            return images.states(rows.column("_unknown_columns"), self.names)
        unfit = self.unfit(rows)
        return np.where(unfit, UNAVAILABLE, KNOWN).astype(np.uint8) if unfit.any() else None

    def unfit(self, rows: pa.RecordBatch) -> Bools:
        """n x columns: the cells of the source whose value does not fit the column's type."""
        return ledger.named(rows.column(UNFIT_COLUMNS), [(c.origin or c).name for c in self.own])

    def keys(self, rows: pa.RecordBatch) -> list[Numbers]:
        return self.columns.key_hashes(self.own, by_name(rows), rows.num_rows)

    def is_begun(self, rows: pa.RecordBatch) -> Bools:
        if self.part != HISTORY:
            return np.ones(rows.num_rows, np.bool_)
        return self.fence.is_begun(rows.column("_valid_from"), rows.column("_commit_lsn"))

    def is_behind(self, rows: pa.RecordBatch) -> Bools:
        if self.part != HISTORY:
            return np.zeros(rows.num_rows, np.bool_)
        return self.fence.is_behind(rows.column("_valid_from"), rows.column("_commit_lsn"))


def make_versions(batch: pa.RecordBatch, read: Read, buckets: Sequence[int] | None) -> pa.RecordBatch:
    """Converts rows of one part to `VERSIONS`: only rows in `buckets`, if not None."""
    keys = read.keys(batch)
    bucket = (keys[0] % BUCKETS).astype(np.int32)
    if buckets is not None:
        among = np.isin(bucket, list(buckets))
        if not among.all():
            keys, bucket = [key[among] for key in keys], bucket[among]
            batch = batch.filter(pa.array(among))
    is_source, size = read.part == SOURCE, batch.num_rows
    cells = of_cells(
        [batch.column(name) for name in read.names],
        np.ones(size, np.bool_),
        None if is_source else read.states(batch),
        [form.value for form in read.columns.forms],
    )
    if is_source and (unfit := read.unfit(batch)).any():
        cells = replace(cells, numbers=np.where(unfit, _UNFIT, cells.numbers))
    names = ("change_id", "sort_key", "next_sort_key", "is_deleted")
    columns = {
        **{name: batch.column(f"_{name}") for name in names if f"_{name}" in batch.schema.names},
        "part": read.part,
        "key_1": keys[0],
        "key_2": keys[1],
        "bucket": bucket,
        "cells": cells.array(),
        "has_gaps": ~cells.known.all(axis=1),
        "is_loaded": equal(batch.column("_operation"), SNAPSHOT) if read.part == HISTORY else False,
        "is_behind": read.is_behind(batch),
        "is_begun": read.is_begun(batch),
    }
    return batch_of(columns, VERSIONS)


# The columns of a row that are summed.
NARROW: Final = pa.schema(
    [
        *(VERSIONS.field(n) for n in ("part", "key_1", "key_2", "bucket", "has_gaps", "is_behind")),
        ("row", pa.int64()),
    ]
)


def narrow(batch: pa.RecordBatch, columns: Columns) -> pa.RecordBatch:
    """Reduces `VERSIONS` to `NARROW`."""
    cells = CellHashes.of(batch.column("cells"), len(columns.forms))
    parts = [batch.column(name).to_numpy() for name in ("key_1", "key_2")]
    rows = folded([*parts, *(cells.numbers[:, at] for at in range(cells.numbers.shape[1]))], len(cells))
    return batch_of({**by_name(batch), "row": rows}, NARROW)


def key_codes(rows: pa.Table) -> Numbers:
    """Returns a number for each row's key, from 0; rows of one key have the same number."""
    return group_numbers([column(rows, name).to_numpy() for name in ("key_1", "key_2")], len(rows))
