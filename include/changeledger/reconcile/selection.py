"""Kernels that select the published rows of a history or a ledger from which a window continues."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.kernels.arrow import Bools, flags_of, row_type, valid
from changeledger.kernels.hashed import by, hash_of
from changeledger.kernels.order import is_among
from changeledger.kernels.touched import Known
from changeledger.model.contract import Contract

# The columns that say from when to when an interval's row existed.
SPAN: Final = pa.schema(
    [("_sort_key", pa.binary()), ("_next_sort_key", pa.binary()), ("_is_deleted", pa.bool_())]
)
IDS: Final = pa.schema([("change_id", pa.string())])


def key_of_rows(contract: Contract) -> Callable[[pa.RecordBatch], np.ndarray]:
    """Returns the bucket key of a history's rows, which equals that of a column `key`."""
    return by(*(c.name for c in contract.key))


@dataclass(frozen=True)
class OpenOrEmptied:
    """Kernel that keeps a history's rows with one of the keys, and those alive when the table was emptied.

    `hashes`: those of the keys; `emptied`: the sort keys of truncates.
    """

    contract: Contract
    hashes: Known
    emptied: tuple[bytes, ...] = ()

    @property
    def is_selective(self) -> bool:
        """False if there are truncates, which end all rows."""
        return not self.emptied

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        passes = is_among(key_of_rows(self.contract)(rows), self.hashes)
        if self.emptied:
            passes |= _was_there(rows, self.emptied)
        return rows if passes.all() else rows.filter(pa.array(passes))


def were_there(rows: pa.RecordBatch, emptied: tuple[bytes, ...]) -> pa.RecordBatch:
    """Kernel that keeps a history's rows that existed when the table was emptied."""
    return rows.filter(pa.array(_was_there(rows, emptied)))


def _was_there(rows: pa.RecordBatch, emptied: tuple[bytes, ...]) -> Bools:
    begins, ends, is_deleted = (rows.column(name) for name in SPAN.names)
    each = [
        flags_of(pc.less(begins, at)) & (~valid(ends) | flags_of(pc.greater(ends, at)))
        for at in map(pa.scalar, emptied)
    ]
    was_alive: Bools = reduce(np.logical_or, each) & ~flags_of(is_deleted)
    return was_alive


@dataclass(frozen=True)
class EffectsOn:
    """Kernel that keeps a ledger's rows with an effect on one of the keys, given by their hashes."""

    hashes: Known
    is_selective: ClassVar[bool] = True

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        passes = is_among(hash_of([rows.column("key")]), self.hashes)
        moved = valid(rows.column("previous_key"))
        if moved.any():
            passes |= moved & is_among(hash_of([rows.column("previous_key")]), self.hashes)
        return rows.filter(pa.array(passes))


def joined(changes: pa.RecordBatch) -> pa.RecordBatch:
    """Kernel that keeps updates of a key that were joined from two halves."""
    return changes.filter(changes.column("paired_change_id").is_valid())


def ids(changes: pa.RecordBatch) -> pa.RecordBatch:
    """Returns `IDS` of joined updates and of the deletes joined into them."""
    both = [changes.column(name) for name in ("change_id", "paired_change_id")]
    return pa.RecordBatch.from_arrays([pa.concat_arrays(both)], schema=IDS)


def as_places(rows: pa.RecordBatch, contract: Contract, sort_key: bytes) -> pa.RecordBatch:
    """Returns the `key` of a history's rows, each with that sort key."""
    key_fields = row_type(contract.key)
    cells = [rows.column(c.name) for c in contract.key]
    key = pa.StructArray.from_arrays(cells, fields=list(key_fields))
    columns = [key, pa.repeat(pa.scalar(sort_key, pa.binary()), len(key))]
    return pa.RecordBatch.from_arrays(columns, names=["key", "sort_key"])
