"""Where rows that Spark's workers carry come from, and which task reads which parts of them."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heapreplace
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame

from changeledger.spark.tasks import BUCKET, InParts, Reading

# To open a part, or to begin on a table, costs as much as so many rows.
OPENING: Final = 2_000
# A task has at most so many rows, which it reads one batch at a time: each task has a price of its own. Fewer
# rows are read by several cores all the same, as long as a task has so many.
_MOST, _LEAST, _FEW_TASKS = 125_000, 25_000, 8


@dataclass(frozen=True, eq=False)
class Origin:
    """Where rows come from. `rows`: how many there are, about."""

    rows: int

    @property
    def counted(self) -> Hashable:
        """What these rows are counted with, once for all origins that have it."""
        return self


@dataclass(frozen=True, eq=False)
class Read(Origin):
    """Parts that workers read."""

    source: InParts


@dataclass(frozen=True, eq=False)
class OfSpark(Origin):
    """A DataFrame of Spark's own rows."""

    frame: DataFrame
    schema: pa.Schema


@dataclass(frozen=True, eq=False)
class KernelOutput(Origin):
    """What kernels of buckets have made: the rows of one part of packed ones, the table's and the output's.

    How many rows each table has is not known. `rows` are those of all tables, so they count once for an
    output: counted once a table, the next step would have as many more buckets, and each table as many files.
    """

    packed: DataFrame
    table: int
    output: str

    @property
    def part(self) -> str:
        return f"{self.table}/{self.output}"

    @property
    def counted(self) -> Hashable:
        return id(self.packed), self.output


@dataclass(frozen=True)
class Given:
    """The rows of a table of this process."""

    table: pa.Table

    @property
    def schema(self) -> pa.Schema:
        return self.table.schema

    @property
    def parts(self) -> list[pa.RecordBatch]:
        return [_by_itself(batch) for batch in self._batches]

    @property
    def weights(self) -> list[int]:
        return [batch.num_rows for batch in self._batches]

    @property
    def _batches(self) -> list[pa.RecordBatch]:
        return [batch for batch in self.table.to_batches(BUCKET) if batch.num_rows]

    def without_parts(self) -> Given:
        return Given(self.schema.empty_table())

    def rows(self, part: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        yield part


def _by_itself(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Its rows in memory of their own: what is cut from a table is pickled with all of that table."""
    return pa.ipc.read_record_batch(batch.serialize(), batch.schema)


def in_tasks(sources: Sequence[InParts]) -> tuple[tuple[Reading, ...], ...]:
    """Parts put together: few tasks for small ones, and each about as long as the others."""
    readings = [Reading(number, part) for number, source in enumerate(sources) for part in source.parts]
    weights = [weight + OPENING for source in sources for weight in source.weights]
    number = min(len(weights), max(-(-sum(weights) // _MOST), for_few_rows(sum(weights))))
    tasks: list[list[Reading]] = [[] for _ in range(number)]
    for at, place in evenly(weights, number):
        tasks[place].append(readings[at])
    return tuple(map(tuple, tasks))


def for_few_rows(rows: int) -> int:
    """So many tasks have work enough, where there are not many rows."""
    return min(-(-rows // _LEAST), _FEW_TASKS)


def evenly(weights: Sequence[int], number: int) -> Iterator[tuple[int, int]]:
    """Each weight's place in the list, the heaviest first, and which of so many tasks gets it: the one that
    has least to do."""
    loads = [(0, place) for place in range(number)]
    for at in sorted(range(len(weights)), key=lambda at: -weights[at]):
        load, place = loads[0]
        yield at, place
        heapreplace(loads, (load + weights[at], place))
