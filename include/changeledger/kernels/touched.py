"""Which rows belong to those of another table: by hashes of some of their values, and by their ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.kernels.hashed import Key

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


@dataclass(frozen=True)
class Among:
    """The rows whose hash is one of these; hardly any other row has one of them, too."""

    key: Key
    hashes: Known

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        if not len(self.hashes):
            return rows.slice(0, 0)
        own = self.key(rows)
        at = np.minimum(np.searchsorted(self.hashes, own), len(self.hashes) - 1)
        return rows.filter(pa.array(self.hashes[at] == own))


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


def rows_of(structs: Sequence[pa.StructArray]) -> pa.RecordBatch:
    """The structs that are not NULL, their fields as columns."""
    return pa.RecordBatch.from_struct_array(pa.concat_arrays([one.drop_null() for one in structs]))
