"""Assigns rows to buckets by a hash of some of their values, the same wherever it is computed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from changeledger.kernels.arrow import column, numbers, valid
from changeledger.kernels.fingerprints import begun, of_column, of_constant

Hashes = npt.NDArray[np.uint64]
# A hash for each row of a batch: equal for rows that belong together.
Key = Callable[[pa.RecordBatch], Hashes]

# Decimals of up to this many digits fit a 64-bit number, which is hashed faster than bytes.
_LONG_DIGITS = 18
# Stands for NULL where it counts. No text equals it, since it is not UTF-8.
_NULL = b"\xffNULL"


def by(*columns: str) -> Key:
    """Returns a key that is equal for rows with equal values in these columns; structs count all fields."""
    return partial(_hash_of, columns)


def _hash_of(columns: Sequence[str], rows: pa.RecordBatch) -> Hashes:
    return hash_of([rows.column(name) for name in columns])


def hash_of(columns: Sequence[pa.Array]) -> Hashes:
    """Hashes each row's values; NULL adds nothing."""
    accumulators = begun(len(columns[0]))
    for leaf in _leaves(columns):
        accumulators = of_column(accumulators, leaf)
    hashes: Hashes = accumulators[0]
    return hashes


def row_hash(columns: Sequence[pa.Array]) -> Hashes:
    """Hashes each row's values as `hash_of`, but NULL counts: no value is in the next column instead."""
    h = begun(len(columns[0]))
    for leaf in _leaves(columns):
        known = of_column(h, leaf)
        h = np.where(valid(leaf), known, of_constant(h, _NULL)) if leaf.null_count else known
    hashes: Hashes = h[0]
    return hashes


def hashes_in(rows: pa.Table, name: str = "hash") -> Hashes:
    """Returns hashes that Spark has carried in an int64 column."""
    return numbers(column(rows, name)).view(np.uint64)


def _leaves(columns: Sequence[pa.Array]) -> Iterator[pa.Array]:
    for cells in columns:
        if pa.types.is_struct(cells.type):
            yield from _leaves(cells.flatten())
        elif pa.types.is_decimal(cells.type) and cells.type.precision <= _LONG_DIGITS:
            # The lower half of 16 bytes is the whole number.
            halves = np.frombuffer(cells.buffers()[1], np.int64)[2 * cells.offset :: 2]
            yield pa.array(halves[: len(cells)], mask=~valid(cells))
        elif pa.types.is_map(cells.type):
            yield _of_entries(cells)
        else:
            yield cells


def _of_entries(maps: pa.MapArray) -> pa.Int64Array:
    """Sums up the hashes of each map's entries, whose order says nothing."""
    sums = np.concatenate(([np.uint64(0)], np.cumsum(row_hash([maps.keys, maps.items]))))
    at = numbers(maps.offsets)
    return pa.array((sums[at[1:]] - sums[at[:-1]]).view(np.int64), mask=~valid(maps))
