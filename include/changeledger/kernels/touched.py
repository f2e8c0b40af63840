"""Which rows belong to those of another table: by some of their values, hashes of them, and ends."""

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
# Iceberg looks for each of up to so many values in a file's bounds.
FEW: Final = 200
# In order, each once.
Known = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class HashesOf:
    """The kernel of `HASHES`: the hashes that a batch has, each once."""

    key: Key

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        hashes = order.distinct(self.key(rows)).view(np.int64)
        return pa.RecordBatch.from_arrays([pa.array(hashes)], schema=HASHES)


def known(hashes: pa.Table) -> Known:
    """`HASHES` of all batches, each once."""
    return order.distinct(hashes.column("hash").to_numpy().view(np.uint64))


@dataclass(frozen=True)
class Among:
    """The rows whose hash is one of these; hardly any other row has one of them, too."""

    key: Key
    hashes: Known
    # Few rows of many pass.
    is_selective: ClassVar[bool] = True

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        return rows.filter(pa.array(order.is_among(self.key(rows), self.hashes)))


def ends(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Of each column the least and the greatest value, and NULL where a row has it: three rows.

    All are NULL of a column whose values have no order.
    """
    column_ends = [_ends(column) for column in rows.columns]
    return pa.RecordBatch.from_arrays(column_ends, schema=rows.schema)


def _ends(column: pa.Array) -> pa.Array:
    kind = column.type
    # NaN stands between no two values.
    if pa.types.is_floating(kind) or pa.types.is_boolean(kind) or pa.types.is_nested(kind):
        return pa.nulls(3, kind)
    extremes: dict[str, Any] = pc.min_max(column).as_py()
    return pa.array([extremes["min"], extremes["max"], None if column.null_count else extremes["min"]], kind)


def touched_schema(key: pa.StructType) -> pa.Schema:
    """Of `keys_touched`: hashes of keys, and after them keys."""
    return pa.schema([("hash", pa.int64()), ("key", key)])


def sides_touched(changes: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """`touched_schema` of both keys of changes."""
    return keys_touched(rows_of([changes.column(side) for side in ("key", "previous_key")]), schema)


def keys_touched(keys: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """`touched_schema` of keys, a column for each part of theirs: each once, or ends of many."""
    kind = schema.field("key").type
    hashes = pa.array(order.distinct(hash_of(keys.columns)).view(np.int64))
    shown = _each_once(keys) if len(hashes) <= FEW else ends(keys)
    of_keys = shown.to_struct_array().cast(kind)
    of_hashes, of_shown = pa.nulls(len(hashes), kind), pa.nulls(len(of_keys), pa.int64())
    cells = [pa.concat_arrays([hashes, of_shown]), pa.concat_arrays([of_hashes, of_keys])]
    return pa.RecordBatch.from_arrays(cells, schema=schema)


COMMITS: Final = touched_schema(pa.struct([("commit_lsn", pa.binary())]))


def commits(changes: pa.RecordBatch) -> pa.RecordBatch:
    """`COMMITS` of ledger rows."""
    return keys_touched(changes.select(["commit_lsn"]), COMMITS)


def _each_once(rows: pa.RecordBatch) -> pa.RecordBatch:
    _, first = np.unique(order.codes(rows.columns, len(rows)), return_index=True)
    return rows.take(pa.array(first))


class Touched(NamedTuple):
    """Keys: their hashes, and the keys themselves where they are `few`, else the ends of their columns."""

    hashes: Known
    keys: pa.RecordBatch

    @classmethod
    def of(cls, touched: pa.Table) -> Touched:
        """`touched`: `touched_schema` of all batches."""
        hashes = known(touched.select(["hash"]).drop_null())
        keys = rows_of([touched.column("key").combine_chunks()])
        # A batch of more than a few has more than a few hashes: where all are few, all keys are here.
        return cls(hashes, _each_once(keys) if len(hashes) <= FEW else ends(keys))

    @classmethod
    def of_keys(cls, keys: pa.RecordBatch) -> Touched:
        schema = touched_schema(pa.struct(list(keys.schema)))
        return cls.of(pa.Table.from_batches([keys_touched(keys, schema)]))

    @property
    def are_few(self) -> bool:
        return len(self.hashes) <= FEW


def rows_of(structs: Sequence[pa.StructArray]) -> pa.RecordBatch:
    """The structs that are not NULL, their fields as columns."""
    return pa.RecordBatch.from_struct_array(pa.concat_arrays([struct.drop_null() for struct in structs]))
