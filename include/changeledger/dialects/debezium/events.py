"""The columnar form of events, one row each, which `typed` and `single` produce and `decode` consumes.

`b0, b1, ...` and `a0, a1, ...` are the cells of the before and after images, in the writer schema's order.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa

from changeledger.kernels.arrow import Bools, Bytes, arrow_type
from changeledger.kernels.images import Image
from changeledger.kernels.rows import as_batch
from changeledger.model.contract import Contract

SIDES = ("b", "a")
# Columns from `source` and the message around it. `at` is the record's row in its batch.
PLACE = (
    ("at", pa.int64()),
    ("op", pa.string()),
    ("connector", pa.string()),
    # In lower case; NULL if absent.
    ("snapshot", pa.string()),
    # `source.ts_ms` and the message's own `ts_ms`, in milliseconds since 1970.
    ("committed_ms", pa.int64()),
    ("sent_ms", pa.int64()),
    ("commit_lsn", pa.binary()),
    ("change_lsn", pa.binary()),
    # The 64-bit position of another connector.
    ("wal", pa.int64()),
    ("ordinal", pa.int64()),
    ("transaction", pa.string()),
)


@lru_cache(maxsize=256)
def schema(writer_schema: Contract) -> pa.Schema:
    fields = list(PLACE)
    for side in SIDES:
        fields.append((side, pa.bool_()))
        fields.append((f"{side}_states", pa.binary(max(len(writer_schema.columns), 1))))
        fields += [(f"{side}{at}", arrow_type(c.spark_type)) for at, c in enumerate(writer_schema.columns)]
    return pa.schema(fields)


def image_columns(image: Image, columns: int) -> list[pa.Array]:
    """Returns the columns of one side."""
    rows, width = len(image.present), max(columns, 1)
    kind = pa.binary(width)
    if image.states is None or not columns:
        states = pa.nulls(rows, kind)
    else:
        data = pa.py_buffer(np.ascontiguousarray(image.states))
        states = pa.Array.from_buffers(kind, rows, [None, data])
    return [pa.array(image.present), states, *image.cells]


def image(events: pa.RecordBatch, side: str, columns: int) -> Image:
    present: Bools = events.column(side).to_numpy(zero_copy_only=False)
    cells = [events.column(f"{side}{at}") for at in range(columns)]
    return Image(present, cells, _states(events.column(f"{side}_states"), columns))


def _states(states: pa.FixedSizeBinaryArray, columns: int) -> Bytes | None:
    if states.null_count == len(states):
        return None
    data = np.frombuffer(states.buffers()[1], np.uint8).reshape(-1, max(columns, 1))
    cell_states = data[states.offset : states.offset + len(states)]
    if states.null_count:
        known = states.is_valid().to_numpy(zero_copy_only=False)
        cell_states = np.where(known[:, None], cell_states, 0).astype(np.uint8)
    return cell_states


def together(parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Concatenates events in the order of their records."""
    some = [part for part in parts if part.num_rows] or list(parts[:1])
    if len(some) == 1:
        return some[0]
    batch = as_batch(pa.Table.from_batches(some))
    order = np.argsort(batch.column("at").to_numpy(), kind="stable")
    return batch.take(pa.array(order))
