"""What Spark's Python workers do with rows: kernels over batches and buckets, and dealing out to buckets.

It imports no Spark, and nothing that the driver alone needs: each worker pays for its imports.
"""

from __future__ import annotations

import gc
import os
import socket
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import reduce
from stat import S_ISSOCK
from typing import Any, Final, Protocol
from zipimport import zipimporter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.kernels.hashed import Key
from changeledger.kernels.rows import BatchKernel, BucketKernel, as_batch

Batches = Iterator[pa.RecordBatch]

# This many rows a kernel gets at once, about: few enough for a worker's memory, enough to be worth a call.
BUCKET: Final = 50_000
# This many rows are dealt out to buckets at once, or so many bytes: what a bucket gets of them is one piece.
_DEALT, _MOST_BYTES = 100_000, 128 << 20
# What travels through Spark: batches of rows in Arrow's own bytes, which bucket they go into and whose they
# are. Spark would take each row apart, to keep it and again to hand it on.
TO, PART, ROWS = "to", "part", "rows"
PACKED: Final = pa.schema([(TO, pa.int32()), (PART, pa.string()), (ROWS, pa.binary())])


def typed(schema: pa.Schema, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch, in the lake's types: Iceberg has no narrow numbers, and Spark names the parts of lists."""
    return pa.RecordBatch.from_arrays([batch.column(f.name).cast(f.type) for f in schema], schema=schema)


def carried(
    opened: Callable[[Batches], Batches],
    steps: Sequence[BatchKernel],
    work: Callable[[Batches], Batches],
    batches: Batches,
) -> Batches:
    _begin_task()
    rows = (reduce(lambda made, step: step(made), steps, batch) for batch in opened(batches))
    return work(batch for batch in rows if batch.num_rows)


class InParts(Protocol):
    """Rows that are read part by part, each for itself."""

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def parts(self) -> Sequence[Any]: ...

    def rows(self, part: Any) -> Iterator[pa.RecordBatch]: ...


def read(source: InParts, numbers: Batches) -> Batches:
    """The rows of the parts with these numbers."""
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            yield from source.rows(source.parts[number])


def _begin_task() -> None:
    """What Spark's Python does for each task is made cheap.

    Before a task a worker reads the directories of the archives again that it imports from, Spark's own
    Python among them: a tenth of a second. It does so for finders that are there; they are made when needed.
    After a task it collects garbage: another tenth, for all that was ever imported. That stays anyway.
    """
    gc.freeze()
    _acknowledge_at_once()
    archives = [path for path, one in sys.path_importer_cache.items() if isinstance(one, zipimporter)]
    for path in archives:
        del sys.path_importer_cache[path]


def _acknowledge_at_once() -> None:
    """Say to the JVM that a packet has come when it comes; until the next task.

    It sends a task in small packets, and each waits until the one before is acknowledged (Nagle's
    algorithm). Linux does that after 40 ms, to save packets: most of a short task's time.
    """
    if not hasattr(socket, "TCP_QUICKACK"):
        return
    for descriptor in map(int, os.listdir("/proc/self/fd")):  # noqa: PTH208 - for each task
        # One was open for the listing alone, and some are sockets of other kinds.
        with suppress(OSError):
            if S_ISSOCK(os.fstat(descriptor).st_mode):
                with socket.fromfd(descriptor, socket.AF_INET, socket.SOCK_STREAM) as one:
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)


def deal(part: str, key: Key, targets: Sequence[int], batches: Iterable[pa.RecordBatch]) -> Batches:
    """The rows in packed batches, one for each bucket that gets some."""
    for table in gathered(batches, _DEALT):
        rows = as_batch(table)
        bucket = (key(rows) % np.uint64(len(targets))).astype(np.int64)
        in_order = rows.take(pa.array(np.argsort(bucket, kind="stable")))
        ends = np.cumsum(np.bincount(bucket, minlength=len(targets)))
        for target, begin, end in zip(targets, (0, *ends), ends, strict=False):
            if begin < end:
                yield _packed(target, part, in_order.slice(begin, end - begin))


def _packed(to: int, part: str, batch: pa.RecordBatch) -> pa.RecordBatch:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as out:
        out.write_batch(batch)
    values = [
        pa.array([to], pa.int32()),
        pa.array([part]),
        pa.array([sink.getvalue().to_pybytes()], pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(values, schema=PACKED)


def unpacked(batches: Iterable[pa.RecordBatch]) -> Batches:
    for batch in batches:
        for rows in batch.column(ROWS):
            yield from pa.ipc.open_stream(rows.as_buffer())


def of_bucket(
    kernel: BucketKernel,
    schemas: Mapping[str, pa.Schema],
    outputs: Mapping[str, pa.Schema],
    batches: Iterable[pa.RecordBatch],
) -> Batches:
    _begin_task()
    found = list(batches)
    if not sum(batch.num_rows for batch in found):
        return
    made = kernel({name: _table_of(found, name, schema) for name, schema in schemas.items()})
    for name, schema in outputs.items():
        for batch in made[name].cast(schema).combine_chunks().to_batches(BUCKET):
            yield _packed(0, name, batch)


def _table_of(batches: Sequence[pa.RecordBatch], part: str, schema: pa.Schema) -> pa.Table:
    own = [batch.filter(pc.equal(batch.column(PART), part)) for batch in batches]
    return pa.Table.from_batches(list(unpacked(own)), schema).cast(schema)


def gathered(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.Table]:
    """The batches in tables of about this many rows, or of fewer where these are large."""
    waiting: list[pa.RecordBatch] = []
    there = size = 0
    for batch in batches:
        waiting.append(batch)
        there, size = there + batch.num_rows, size + batch.nbytes
        if there >= rows or size >= _MOST_BYTES:
            yield pa.Table.from_batches(waiting)
            waiting, there, size = [], 0, 0
    if waiting:
        yield pa.Table.from_batches(waiting)
