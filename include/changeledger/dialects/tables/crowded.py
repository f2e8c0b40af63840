"""Rows of one change table that stand at one place: numbered, so that each has its own `source_position`."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from changeledger.dialects.tables.rows import OWN
from changeledger.kernels import json_rows
from changeledger.kernels.arrow import RECORD


def are_crowded(raw: pa.RecordBatch) -> bool:
    """Do several of the rows stand at one place?"""
    _, counts = _places(raw)
    return bool((counts > 1).any())


def numbered(raw: pa.RecordBatch) -> pa.RecordBatch:
    """The rows, in the batch's order: those at one place numbered by contents in `source_position.offset`.

    All rows of a window that stand at one place must be in the batch. The first has no number: a row that
    stands alone is known by its place. Equal contents take the numbers in the order of the batch.
    """
    place, counts = _places(raw)
    crowded = np.flatnonzero(counts[place] > 1)
    some = raw.take(pa.array(crowded))
    columns = {n: c for n, c in zip(some.schema.names, some.columns, strict=True) if n not in OWN}
    contents = json_rows.rows(columns, len(crowded)).to_pylist()
    number = np.zeros(raw.num_rows, np.int64)
    last, taken = -1, 0
    # Python compares texts by code points, which is the order of their bytes in UTF-8.
    for at in sorted(range(len(crowded)), key=lambda at: (place[crowded[at]], contents[at])):
        row = crowded[at]
        taken = taken + 1 if place[row] == last else 0
        last = place[row]
        number[row] = taken
    source, partition, _, position = raw.column("source_position").flatten()
    offset = pa.array(number, mask=number == 0)
    record = pa.StructArray.from_arrays([source, partition, offset, position], fields=list(RECORD))
    return raw.set_column(raw.schema.get_field_index("source_position"), "source_position", record)


def _places(raw: pa.RecordBatch) -> tuple[np.ndarray, np.ndarray]:
    """A number for each row's place, and how many rows each place has."""
    source, _, _, position = raw.column("source_position").flatten()
    codes = [
        column.dictionary_encode().indices.to_numpy(zero_copy_only=False) for column in (source, position)
    ]
    _, place, counts = np.unique(
        codes[0].astype(np.int64) << 32 | codes[1].astype(np.int64), return_inverse=True, return_counts=True
    )
    return place, counts
