"""Which rows belong to those of another table: by hashes of some of their values, and by their ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.kernels.arrow import Bools
from changeledger.kernels.hashed import Key, hash_of

HASHES: Final = pa.schema([("hash", pa.int64())])
# In order, each once.
Known = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class HashesOf:
    """The kernel of `HASHES`: the hashes that a batch has, each once."""

    key: Key

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        found = np.unique(self.key(rows)).view(np.int64)
        return pa.RecordBatch.from_arrays([pa.array(found)], schema=HASHES)


def known(hashes: pa.Table) -> Known:
    """`HASHES` of all batches, each once."""
    return np.unique(hashes.column("hash").to_numpy().view(np.uint64))


def is_among(own: Known, hashes: Known) -> Bools:
    """Which of a batch's hashes are among the known ones."""
    if not len(hashes):
        return np.zeros(len(own), np.bool_)
    found: Bools = hashes[np.minimum(np.searchsorted(hashes, own), len(hashes) - 1)] == own
    return found


@dataclass(frozen=True)
class Among:
    """The rows whose hash is one of these; hardly any other row has one of them, too."""

    key: Key
    hashes: Known

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        return rows.filter(pa.array(is_among(self.key(rows), self.hashes)))


def ends(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Two rows: the least and the greatest value of each column; NULL of one whose values have no order."""
    found = [_ends(column) for column in rows.columns]
    return pa.RecordBatch.from_arrays(found, schema=rows.schema)


def _ends(column: pa.Array) -> pa.Array:
    kind = column.type
    # NaN stands between no two values.
    if pa.types.is_floating(kind) or pa.types.is_boolean(kind) or pa.types.is_nested(kind):
        return pa.nulls(2, kind)
    found: dict[str, Any] = pc.min_max(column).as_py()
    return pa.array([found["min"], found["max"]], kind)


def touched_schema(key: pa.StructType) -> pa.Schema:
    """Of `keys_touched`: hashes of keys, and after them the ends of the keys' columns."""
    return pa.schema([("hash", pa.int64()), ("key", key)])


def sides_touched(changes: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """`touched_schema` of changes, all of whose columns are keys."""
    return keys_touched(rows_of(changes.columns), schema)


def keys_touched(keys: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """`touched_schema` of keys, a column for each part of theirs."""
    kind = schema.field("key").type
    hashes = pa.array(np.unique(hash_of(keys.columns)).view(np.int64))
    both = ends(keys).to_struct_array().cast(kind)
    of_hashes, of_ends = pa.nulls(len(hashes), kind), pa.nulls(len(both), pa.int64())
    cells = [pa.concat_arrays([hashes, of_ends]), pa.concat_arrays([of_hashes, both])]
    return pa.RecordBatch.from_arrays(cells, schema=schema)


class Touched(NamedTuple):
    """Keys: their hashes, and the ends of their columns."""

    hashes: Known
    ends: pa.RecordBatch

    @classmethod
    def of(cls, found: pa.Table) -> Touched:
        """`found`: `touched_schema` of all batches."""
        hashes = known(found.select(["hash"]).drop_null())
        return cls(hashes, ends(rows_of([found.column("key").combine_chunks()])))


def rows_of(structs: Sequence[pa.StructArray]) -> pa.RecordBatch:
    """The structs that are not NULL, their fields as columns."""
    return pa.RecordBatch.from_struct_array(pa.concat_arrays([one.drop_null() for one in structs]))
