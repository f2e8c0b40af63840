"""Origins of rows that Spark's workers process, and the assignment of their parts to tasks."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heapreplace
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame

from changeledger.spark.tasks import BUCKET, InParts, Reading

# Cost of opening a part, or of beginning a table, in rows.
OPENING: Final = 2_000
# Most rows of a task, which reads them batch by batch; each task has a cost of its own. Fewer rows are still
# spread over several cores, up to `_FEW_TASKS` tasks with about `_LEAST` rows each.
_MOST, _LEAST, _FEW_TASKS = 125_000, 25_000, 8


@dataclass(frozen=True, eq=False)
class Origin:
    """Where rows come from. `rows`: their approximate number."""

    rows: int

    @property
    def counted(self) -> Hashable:
        """Origins with the same value share their rows, which count once."""
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
    """One output of a bucket kernel for one table, as a part of packed rows.

    How many rows each table has is unknown: `rows` is the number for all tables, so it counts once per
    output. If it counted once per table, the next step would have that many times more buckets and files.
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
    """Rows of an Arrow table in this process."""

    table: pa.Table

    @property
    def schema(self) -> pa.Schema:
        return self.table.schema

    @property
    def parts(self) -> list[pa.RecordBatch]:
        # Copied to memory of their own: pickling a slice would pickle the whole table.
        return [pa.ipc.read_record_batch(batch.serialize(), batch.schema) for batch in self._batches]

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


def in_tasks(sources: Sequence[InParts]) -> tuple[tuple[Reading, ...], ...]:
    """Assigns parts to tasks of similar cost, and small parts to few tasks."""
    readings = [Reading(number, part) for number, source in enumerate(sources) for part in source.parts]
    weights = [weight + OPENING for source in sources for weight in source.weights]
    number = min(len(weights), max(-(-sum(weights) // _MOST), for_few_rows(sum(weights))))
    tasks: list[list[Reading]] = [[] for _ in range(number)]
    for at, place in evenly(weights, number):
        tasks[place].append(readings[at])
    return tuple(map(tuple, tasks))


def for_few_rows(rows: int) -> int:
    """Returns how many tasks are worthwhile for few rows."""
    return min(-(-rows // _LEAST), _FEW_TASKS)


def evenly(weights: Sequence[int], number: int) -> Iterator[tuple[int, int]]:
    """Yields the index of each weight, the heaviest first, and the task that gets it.

    That is the one of `number` tasks with the least work so far.
    """
    loads = [(0, place) for place in range(number)]
    for at in sorted(range(len(weights)), key=lambda at: -weights[at]):
        load, place = loads[0]
        yield at, place
        heapreplace(loads, (load + weights[at], place))
