"""What Spark's Python workers do with rows: kernels over batches and over buckets.

It imports no Spark, and nothing that the driver alone needs: each worker pays for its imports.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

import pyarrow as pa

from changeledger.kernels.arrow import as_schema
from changeledger.kernels.rows import BatchKernel, BucketKernel
from changeledger.spark.pickles import Pickles
from changeledger.spark.sinks import PART, ROWS, Batches, Sink, packed, unpacked
from changeledger.spark.worker_start import begin_task

# This many rows a kernel gets at once, about: few enough for a worker's memory, enough to be worth a call.
BUCKET: Final = 50_000


class InParts(Protocol):
    """Rows that are read part by part, each for itself. `weights`: about how many rows each part has."""

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def parts(self) -> Sequence[Any]: ...

    @property
    def weights(self) -> Sequence[int]: ...

    def without_parts(self) -> InParts:
        """What `rows` needs beside a part."""
        ...

    def rows(self, part: Any) -> Iterator[pa.RecordBatch]: ...


class Tree(NamedTuple):
    """What becomes of rows: they go into the sinks, and through each kernel into a tree of its own."""

    sinks: tuple[Sink, ...]
    branches: tuple[tuple[BatchKernel, Tree], ...]


def tree(leaves: Sequence[tuple[Sequence[BatchKernel], Sink]]) -> Tree:
    """The tree of sinks behind kernels. Kernels that several begin with are run once."""
    branches: dict[int, tuple[BatchKernel, list[tuple[Sequence[BatchKernel], Sink]]]] = {}
    for steps, sink in leaves:
        if steps:
            branches.setdefault(id(steps[0]), (steps[0], []))[1].append((steps[1:], sink))
    sinks = tuple(sink for steps, sink in leaves if not steps)
    return Tree(sinks, tuple((step, tree(behind)) for step, behind in branches.values()))


class _Flow:
    """A tree in one task."""

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
    """One part of a source, and the number of this and of the tree that its rows go through."""

    number: int
    part: Any


def read_parts(
    tasks: Pickles, sources: Pickles, trees: Pickles, numbers: Iterable[pa.RecordBatch]
) -> Batches:
    """The parts that each task reads, by the number of the task.

    Every task gets all of it, and unpickles its own part alone: of many tables that took longer than to read
    them. `tasks`: for each its `Reading`s; `sources` and `trees` by the number that these have.
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
    """Packed rows through the tree of their part."""
    begin_task()
    flows = {name: _Flow(of) for name, of in trees.items()}
    for batch in packed:
        for name, rows in zip(batch.column(PART).to_pylist(), batch.column(ROWS), strict=True):
            yield from _through(flows[name], pa.ipc.open_stream(rows.as_buffer()))
    for flow in flows.values():
        yield from flow.rest()


def read_rows(schema: pa.Schema, of: Tree, batches: Iterable[pa.RecordBatch]) -> Batches:
    """Spark's own rows through a tree, in the lake's types.

    Iceberg has no narrow numbers, and Spark names the parts of lists.
    """
    begin_task()
    flow = _Flow(of)
    for batch in batches:
        yield from flow.take(as_schema(batch, schema))
    yield from flow.rest()


class Bucketing(NamedTuple):
    """A kernel of buckets, with the schemas of what goes in and comes out."""

    kernel: BucketKernel
    inputs: Mapping[str, pa.Schema]
    outputs: Mapping[str, pa.Schema]


def in_buckets(kernels: Pickles, batches: Iterable[pa.RecordBatch]) -> Batches:
    """The kernels over the buckets of a partition; a part is called by its kernel's number and its name.

    `kernels`: a `Bucketing` each, of which every task unpickles its own ones, as `read_parts` does.
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
