"""Sinks for the rows of a task: Spark, whoever has asked for them, or buckets.

Rows are sent packed, several batches as one value of Arrow's own bytes. Otherwise Spark would take each row
apart, once to keep it and again to hand it on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np
import pyarrow as pa

from changeledger.kernels.hashed import Key
from changeledger.kernels.rows import as_batch

Batches = Iterator[pa.RecordBatch]

# Rows, or bytes, that are dealt to buckets at once; each bucket gets its share of them as one piece.
_DEALT, _MOST_BYTES = 100_000, 128 << 20
# Columns: the bucket or asker that the rows go to, the part that they belong to, and the packed rows.
TO, PART, ROWS = "to", "part", "rows"
PACKED: Final = pa.schema([(TO, pa.int32()), (PART, pa.string()), (ROWS, pa.binary())])


class Intake(Protocol):
    """Takes the rows of one task. `is_full`: whether it wants no more."""

    @property
    def is_full(self) -> bool: ...

    def take(self, rows: pa.RecordBatch) -> Iterable[pa.RecordBatch]: ...

    def rest(self) -> Iterable[pa.RecordBatch]: ...


# Begins an intake in a task.
Sink = Callable[[], Intake]


class Hand:
    """Passes rows to Spark unchanged."""

    is_full = False

    def take(self, rows: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
        return [rows]

    def rest(self) -> Iterable[pa.RecordBatch]:
        return ()


@dataclass
class Answer:
    """Packs rows for the asker with this number. `room`: how many rows each task gives at most."""

    asker: int
    room: int | None
    _waiting: list[pa.RecordBatch] = field(default_factory=list)

    @property
    def is_full(self) -> bool:
        return self.room is not None and self.room <= 0

    def take(self, rows: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
        if self.room is not None:
            rows = rows.slice(0, max(self.room, 0))
            self.room -= rows.num_rows
        self._waiting.append(rows)
        return ()

    def rest(self) -> Batches:
        if self._waiting:
            yield packed(self.asker, "", self._waiting)


class Deal:
    """Deals rows into buckets by their key. `tasks`: one for each bucket."""

    is_full = False

    def __init__(self, part: str, key: Key, tasks: Sequence[int]) -> None:
        self._part, self._key, self._tasks = part, key, tasks
        self._gathered = Gathered(_DEALT)

    def take(self, rows: pa.RecordBatch) -> Batches:
        for table in self._gathered.add(rows):
            yield from self._dealt(table)

    def rest(self) -> Batches:
        for table in self._gathered.rest():
            yield from self._dealt(table)

    def _dealt(self, table: pa.Table) -> Batches:
        rows, buckets = as_batch(table), len(self._tasks)
        if buckets == 1:
            yield packed(self._tasks[0], self._part, [rows])
            return
        bucket = (self._key(rows) % np.uint64(buckets)).astype(np.int64)
        in_order = rows.take(pa.array(np.argsort(bucket, kind="stable")))
        ends = np.cumsum(np.bincount(bucket, minlength=buckets)).tolist()
        for task, begin, end in zip(self._tasks, (0, *ends), ends, strict=False):
            if begin < end:
                yield packed(task, self._part, [in_order.slice(begin, end - begin)])


def packed(to: int, part: str, batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Packs the batches into one row of `PACKED`."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_stream(sink, batches[0].schema, options=options) as out:
        for batch in batches:
            out.write_batch(batch)
    values = [
        pa.array([to], pa.int32()),
        pa.array([part]),
        pa.array([sink.getvalue().to_pybytes()], pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(values, schema=PACKED)


def unpacked(rows: Iterable[pa.Buffer], schema: pa.Schema) -> pa.Table:
    """Unpacks rows into a table with the types of `schema`."""
    batches = [batch for buffer in rows for batch in pa.ipc.open_stream(buffer)]
    return pa.Table.from_batches(batches, batches[0].schema if batches else schema).cast(schema)


@dataclass
class Gathered:
    """Gathers batches into tables of about this many rows, or fewer if they are large."""

    rows: int
    _waiting: list[pa.RecordBatch] = field(default_factory=list)
    _waiting_rows: int = 0
    _size: int = 0

    def add(self, batch: pa.RecordBatch) -> Iterable[pa.Table]:
        self._waiting.append(batch)
        self._waiting_rows, self._size = self._waiting_rows + batch.num_rows, self._size + batch.nbytes
        return self.rest() if self._waiting_rows >= self.rows or self._size >= _MOST_BYTES else ()

    def rest(self) -> Iterable[pa.Table]:
        waiting, self._waiting, self._waiting_rows, self._size = self._waiting, [], 0, 0
        return [pa.Table.from_batches(waiting)] if waiting else ()
