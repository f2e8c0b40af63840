"""The tasks of Spark's Python workers: they apply kernels to batches and to buckets of rows.

This module imports neither Spark nor anything that only the driver needs: each worker pays for its imports.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from typing import Any, Final, NamedTuple, Protocol

import pyarrow as pa

from changeledger.kernels.arrow import as_schema
from changeledger.kernels.rows import BatchKernel, BucketKernel
from changeledger.spark.sinks import PART, ROWS, Batches, Sink, packed, unpacked
from changeledger.spark.worker_start import begin_task

# Approximate rows per call of a kernel: few enough for a worker's memory, enough to be worth a call.
BUCKET: Final = 50_000


class InParts(Protocol):
    """Rows in parts, each of which can be read by itself. `weights`: approximate rows of each part."""

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def parts(self) -> Sequence[Any]: ...

    @property
    def weights(self) -> Sequence[int]: ...

    def without_parts(self) -> InParts:
        """Returns what `rows` needs in addition to a part."""
        ...

    def rows(self, part: Any) -> Iterator[pa.RecordBatch]: ...


class Tree(NamedTuple):
    """Routes of rows: into the sinks, and through each kernel into a tree of its own."""

    sinks: tuple[Sink, ...]
    branches: tuple[tuple[BatchKernel, Tree], ...]


def tree(leaves: Sequence[tuple[Sequence[BatchKernel], Sink]]) -> Tree:
    """Builds the tree of kernels and sinks. Kernels with which several leaves begin run once."""
    branches: dict[int, tuple[BatchKernel, list[tuple[Sequence[BatchKernel], Sink]]]] = {}
    for steps, sink in leaves:
        if steps:
            branches.setdefault(id(steps[0]), (steps[0], []))[1].append((steps[1:], sink))
    sinks = tuple(sink for steps, sink in leaves if not steps)
    return Tree(sinks, tuple((step, tree(behind)) for step, behind in branches.values()))


class _Flow:
    """A tree with the intakes of one task."""

    def __init__(self, of: Tree) -> None:
        self._intakes = [sink() for sink in of.sinks]
        self._branches = [(step, _Flow(behind)) for step, behind in of.branches]

    @property
    def is_full(self) -> bool:
        return all(intake.is_full for intake in self._intakes) and all(
            flow.is_full for _, flow in self._branches
        )

    def take(self, rows: pa.RecordBatch) -> Batches:
        if not rows.num_rows:
            return
        for intake in self._intakes:
            yield from intake.take(rows)
        for step, flow in self._branches:
            yield from flow.take(step(rows))

    def rest(self) -> Batches:
        for intake in self._intakes:
            yield from intake.rest()
        for _, flow in self._branches:
            yield from flow.rest()


class Reading(NamedTuple):
    """One part of a source, and the number of the source and of the tree that its rows go through."""

    number: int
    part: Any


class Pickles(NamedTuple):
    """Values for tasks, each pickled by itself, since a task needs few of them.

    `shared`: tables and arrays that several values use, such as the keys of a window; they are sent once, and
    values refer to them by number.
    """

    each: tuple[bytes, ...]
    shared: tuple[bytes, ...] = ()

    def value(self, number: int) -> Any:
        return _Unpickler(self.each[number], self.shared).load()


# Spark itself unpickles what the driver sends to its workers; this does the same one step later.
class _Unpickler(pickle.Unpickler):  # noqa: S301
    def __init__(self, pickled: bytes, shared: tuple[bytes, ...]) -> None:
        super().__init__(BytesIO(pickled))
        self._shared = shared

    def persistent_load(self, number: int) -> Any:
        return pickle.loads(self._shared[number])  # noqa: S301


def read_parts(
    tasks: Pickles, sources: Pickles, trees: Pickles, numbers: Iterable[pa.RecordBatch]
) -> Batches:
    """Reads the parts of each task in `numbers` and passes their rows through their trees.

    Every task is sent everything, but unpickles only its own parts: unpickling all of many tables took longer
    than reading them. `tasks`: the `Reading`s of each task. `sources`, `trees`: by the number in a `Reading`.
    """
    begin_task()
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            yield from _read(tasks.value(number), sources, trees)


def _read(readings: Sequence[Reading], sources: Pickles, trees: Pickles) -> Batches:
    flows: dict[int, _Flow] = {}
    opened: dict[int, InParts] = {}
    for reading in readings:
        if reading.number not in flows:
            flows[reading.number] = _Flow(trees.value(reading.number))
            opened[reading.number] = sources.value(reading.number)
        flow = flows[reading.number]
        if not flow.is_full:
            yield from _through(flow, opened[reading.number].rows(reading.part))
    for flow in flows.values():
        yield from flow.rest()


def _through(flow: _Flow, batches: Iterable[pa.RecordBatch]) -> Batches:
    for rows in batches:
        yield from flow.take(rows)
        if flow.is_full:
            return


def read_packed(trees: Mapping[str, Tree], packed: Iterable[pa.RecordBatch]) -> Batches:
    """Passes packed rows through the tree of their part."""
    begin_task()
    flows = {name: _Flow(of) for name, of in trees.items()}
    for batch in packed:
        for name, rows in zip(batch.column(PART).to_pylist(), batch.column(ROWS), strict=True):
            yield from _through(flows[name], pa.ipc.open_stream(rows.as_buffer()))
    for flow in flows.values():
        yield from flow.rest()


def read_rows(schema: pa.Schema, of: Tree, batches: Iterable[pa.RecordBatch]) -> Batches:
    """Passes Spark's own rows through a tree, converted to the types of `schema`.

    Spark's types differ: Iceberg has no narrow integers, and Spark names list elements.
    """
    begin_task()
    flow = _Flow(of)
    for batch in batches:
        yield from flow.take(as_schema(batch, schema))
    yield from flow.rest()


class Bucketing(NamedTuple):
    """A bucket kernel with the schemas of its inputs and outputs."""

    kernel: BucketKernel
    inputs: Mapping[str, pa.Schema]
    outputs: Mapping[str, pa.Schema]


def in_buckets(kernels: Pickles, batches: Iterable[pa.RecordBatch]) -> Batches:
    """Applies the kernels to the buckets of a partition. Parts are named `<number of the kernel>/<name>`.

    `kernels`: a `Bucketing` each; every task unpickles only those that it needs, as in `read_parts`.
    """
    begin_task()
    waiting: dict[int, dict[str, list[pa.Buffer]]] = {}
    for batch in batches:
        for part, rows in zip(batch.column(PART).to_pylist(), batch.column(ROWS), strict=True):
            number, _, name = part.partition("/")
            waiting.setdefault(int(number), {}).setdefault(name, []).append(rows.as_buffer())
    for number in sorted(waiting):
        yield from _of_kernel(kernels.value(number), number, waiting.pop(number))


def _of_kernel(of: Bucketing, number: int, parts: Mapping[str, Sequence[pa.Buffer]]) -> Batches:
    rows = of.kernel({name: unpacked(parts.get(name, ()), schema) for name, schema in of.inputs.items()})
    for name, schema in of.outputs.items():
        for batch in rows[name].cast(schema).combine_chunks().to_batches(BUCKET):
            yield packed(0, f"{number}/{name}", [batch])
