"""Which bucket a row goes into: a hash of some of its values, the same wherever it is computed.

It is Spark's `xxhash64`, so that rows which Spark has hashed meet those that a kernel has. Source: the
classes HashExpression and XxHash64Function of Apache Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from changeledger.kernels.arrow import numbers, valid
from changeledger.kernels.fingerprints import begun_for_spark, of_column, of_ints, of_longs

Hashes = npt.NDArray[np.uint64]
# A hash for each row of a batch: equal for rows that belong together.
Key = Callable[[pa.RecordBatch], Hashes]

# Of a decimal with up to this many digits Spark hashes the unscaled number, of others its bytes.
_LONG_DIGITS = 18


@dataclass(frozen=True)
class HashOf:
    """The hash of these columns."""

    columns: tuple[str, ...]

    def __call__(self, rows: pa.RecordBatch) -> Hashes:
        return hash_of([rows.column(name) for name in self.columns])


def by(*columns: str) -> Key:
    """The key of rows that belong together where these columns are equal; of a struct, all its fields."""
    return HashOf(columns)


def hash_of(columns: Sequence[pa.Array]) -> Hashes:
    """The hash of each row's values; NULL adds nothing."""
    accumulators = begun_for_spark(len(columns[0]))
    for leaf in _leaves(columns):
        accumulators = _of_leaf(accumulators, leaf)
    hashes: Hashes = accumulators[0]
    return hashes


def _leaves(columns: Sequence[pa.Array]) -> Iterator[pa.Array]:
    for column in columns:
        if pa.types.is_struct(column.type):
            yield from _leaves(column.flatten())
        else:
            yield column


def _of_leaf(h: Hashes, leaf: pa.Array) -> Hashes:
    kind = leaf.type
    if pa.types.is_decimal(kind) and kind.precision <= _LONG_DIGITS:
        # The lower half of 16 bytes is the whole number.
        halves = np.frombuffer(leaf.buffers()[1], np.int64)[2 * leaf.offset : 2 * (leaf.offset + len(leaf))]
        hashes = of_longs(h, np.ascontiguousarray(halves[::2]))
    elif pa.types.is_floating(kind):
        values = numbers(leaf)
        # 0 and -0 are one number, and so are all that are none.
        normalized = np.where(values == 0, 0, np.where(np.isnan(values), np.nan, values)).astype(values.dtype)
        hashes = of_longs(h, normalized) if kind.bit_width > 32 else of_ints(h, normalized.view(np.int32))
    else:
        return of_column(h, leaf)
    return np.where(valid(leaf), hashes, h) if leaf.null_count else hashes
