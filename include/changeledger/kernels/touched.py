"""Selects rows that match those of another table: by hashes of some values, the values, or their ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.kernels import order
from changeledger.kernels.hashed import Key, hash_of

HASHES: Final = pa.schema([("hash", pa.int64())])
# Iceberg compares up to this many values one by one with a file's bounds.
FEW: Final = 200
# Sorted, each once.
Known = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class HashesOf:
    """Kernel with schema `HASHES`: the distinct hashes of a batch."""

    key: Key

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        hashes = order.distinct(self.key(rows)).view(np.int64)
        return pa.RecordBatch.from_arrays([pa.array(hashes)], schema=HASHES)


def known(hashes: pa.Table) -> Known:
    """Returns the distinct `HASHES` of all batches."""
    return order.distinct(hashes.column("hash").to_numpy().view(np.uint64))


@dataclass(frozen=True)
class Among:
    """Kernel that keeps rows whose hash is in `hashes`. Hash collisions with other rows are rare."""

    key: Key
    hashes: Known
    # Few rows of many pass.
    is_selective: ClassVar[bool] = True

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        return rows.filter(pa.array(order.is_among(self.key(rows), self.hashes)))


def ends(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Returns three rows: each column's least and greatest value, and NULL if the column has one.

    A column whose values have no order is NULL in all three.
    """
    column_ends = [_ends(column) for column in rows.columns]
    return pa.RecordBatch.from_arrays(column_ends, schema=rows.schema)


def _ends(column: pa.Array) -> pa.Array:
    kind = column.type
    # NaN lies between no two values.
    if pa.types.is_floating(kind) or pa.types.is_boolean(kind) or pa.types.is_nested(kind):
        return pa.nulls(3, kind)
    extremes: dict[str, Any] = pc.min_max(column).as_py()
    return pa.array([extremes["min"], extremes["max"], None if column.null_count else extremes["min"]], kind)


def touched_schema(key: pa.StructType) -> pa.Schema:
    """Returns the schema of `keys_touched`: rows with hashes of keys, then rows with keys."""
    return pa.schema([("hash", pa.int64()), ("key", key)])


def sides_touched(changes: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Returns `keys_touched` of both keys of changes."""
    return keys_touched(rows_of([changes.column(side) for side in ("key", "previous_key")]), schema)


def keys_touched(keys: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Returns the keys' distinct hashes, then the distinct keys, or their `ends` if there are many.

    `keys` has a column for each part of the key.
    """
    kind = schema.field("key").type
    hashes = pa.array(order.distinct(hash_of(keys.columns)).view(np.int64))
    shown = _each_once(keys) if len(hashes) <= FEW else ends(keys)
    of_keys = shown.to_struct_array().cast(kind)
    of_hashes, of_shown = pa.nulls(len(hashes), kind), pa.nulls(len(of_keys), pa.int64())
    cells = [pa.concat_arrays([hashes, of_shown]), pa.concat_arrays([of_hashes, of_keys])]
    return pa.RecordBatch.from_arrays(cells, schema=schema)


COMMITS: Final = touched_schema(pa.struct([("commit_lsn", pa.binary())]))


def commits(changes: pa.RecordBatch) -> pa.RecordBatch:
    """Returns `keys_touched` of the commit LSNs of ledger rows."""
    return keys_touched(changes.select(["commit_lsn"]), COMMITS)


def _each_once(rows: pa.RecordBatch) -> pa.RecordBatch:
    _, first = np.unique(order.codes(rows.columns, len(rows)), return_index=True)
    return rows.take(pa.array(first))


class Touched(NamedTuple):
    """Hashes of keys, and the keys themselves if they are few, else the ends of their columns."""

    hashes: Known
    keys: pa.RecordBatch

    @classmethod
    def of(cls, touched: pa.Table) -> Touched:
        """Merges the `keys_touched` of all batches."""
        hashes = known(touched.select(["hash"]).drop_null())
        keys = rows_of([touched.column("key").combine_chunks()])
        # A batch that gives ends has more than `FEW` hashes: if all hashes are few, every batch gives its
        # keys.
        return cls(hashes, _each_once(keys) if len(hashes) <= FEW else ends(keys))

    @classmethod
    def of_keys(cls, keys: pa.RecordBatch) -> Touched:
        schema = touched_schema(pa.struct(list(keys.schema)))
        return cls.of(pa.Table.from_batches([keys_touched(keys, schema)]))

    @property
    def are_few(self) -> bool:
        return len(self.hashes) <= FEW


def rows_of(structs: Sequence[pa.StructArray]) -> pa.RecordBatch:
    """Returns the structs that are not NULL, with their fields as columns."""
    return pa.RecordBatch.from_struct_array(pa.concat_arrays([struct.drop_null() for struct in structs]))
