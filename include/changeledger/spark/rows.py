"""Rows that Spark's workers pass through kernels (`kernels.rows`).

Rows are only a plan until somebody asks for them: their origins and the kernels to apply. All that is asked
at one moment becomes one DataFrame of packed batches (`sinks.PACKED`), so one Spark job for all tables.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from io import BytesIO
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from changeledger.kernels.rows import BatchKernel, BucketKernel, Part, Rows
from changeledger.spark import sinks, tasks
from changeledger.spark.dealing import Dealing, Sizes
from changeledger.spark.readings import Given, KernelOutput, OfSpark, Origin, Read, in_tasks
from changeledger.spark.rounds import Rounds
from changeledger.spark.sinks import PACKED, PART, ROWS, TO, Intake, Sink
from changeledger.spark.tasks import InParts, Pickles

# In bytes: smaller tables and arrays are pickled with each value that has them.
_LARGE: Final = 64 << 10
# Number of rows with only primitive columns that weigh as much as one ordinary row.
_NARROW: Final = 10
Item = TypeVar("Item")
Result = TypeVar("Result")


class _Flow(NamedTuple):
    origin: Origin
    steps: tuple[BatchKernel, ...] = ()

    @property
    def rows(self) -> int:
        """Approximate number of rows that come out; 0 if a kernel picks them by the run's own keys."""
        return 0 if any(getattr(step, "is_selective", False) for step in self.steps) else self.origin.rows


@dataclass(frozen=True, eq=False)
class SparkRows:
    """Rows of several origins, each with the kernels that it goes through."""

    workers: Workers
    schema: pa.Schema
    flows: tuple[_Flow, ...]

    def through(self, kernel: BatchKernel, schema: pa.Schema) -> SparkRows:
        flows = tuple(flow._replace(steps=(*flow.steps, kernel)) for flow in self.flows)
        return replace(self, schema=schema, flows=flows)

    def collected(self, most: int | None = None) -> pa.Table:
        return self.workers.answers([Asked(self, most=most)])[0]

    def collected_with(self, others: Sequence[Rows]) -> list[pa.Table]:
        return self.workers.answers([Asked(as_spark(rows)) for rows in (self, *others)])

    def bucketed(
        self, parts: Mapping[str, Part], kernel: BucketKernel, outputs: Mapping[str, pa.Schema]
    ) -> dict[str, Rows]:
        return self.workers.bucketed(_InBuckets(dict(parts), kernel, outputs))

    def and_all(self, others: Sequence[Rows]) -> SparkRows:
        flows = (flow for rows in (self, *others) for flow in as_spark(rows).flows)
        return replace(self, flows=tuple(flows))

    @property
    def frame(self) -> DataFrame:
        """The rows as a DataFrame with columns, for Spark's own operations."""
        dataframes = self.workers.frames([(flow, sinks.Hand) for flow in self.flows], self.schema)
        return reduce(DataFrame.union, dataframes) if dataframes else self.workers.no_rows(self.schema)


def as_spark(rows: Rows) -> SparkRows:
    assert isinstance(rows, SparkRows), "in the pipeline Spark carries all rows"
    return rows


class Asked(NamedTuple):
    """A question to the workers: rows to collect in this process, or to hand to a `sink` for its answer.

    `sink`: begins the intake that answers, given the asker's number; the answer then has its own `schema`.
    `most`: how many rows are wanted at most.
    """

    rows: SparkRows
    sink: Callable[[int], Intake] | None = None
    most: int | None = None
    schema: pa.Schema | None = None

    def table(self, answers: Iterable[pa.Buffer]) -> pa.Table:
        return sinks.unpacked(answers, self.schema or self.rows.schema).slice(0, self.most)


class _InBuckets(NamedTuple):
    parts: Mapping[str, Part]
    kernel: BucketKernel
    outputs: Mapping[str, pa.Schema]

    @property
    def sizes(self) -> Sizes:
        """The weight of each origin, in rows. Rows with only primitive columns weigh less."""
        sizes: dict[Hashable, int] = {}
        for rows in (as_spark(part.rows) for part in self.parts.values()):
            is_narrow = all(pa.types.is_primitive(field.type) for field in rows.schema)
            for flow in rows.flows:
                counted = flow.origin.counted
                weight = flow.rows // _NARROW if is_narrow else flow.rows
                sizes[counted] = max(sizes.get(counted, 0), weight)
        return sizes


_Question = list[Asked] | _InBuckets


class Workers:
    """Spark's workers, for the rows of one stage. Starts the session only if there are rows to process.

    Outputs of bucket kernels are persisted until the stage ends, since they are read several times.
    """

    def __init__(self, session: Callable[[], SparkSession]) -> None:
        self._session = session
        self._kept: list[DataFrame] = []
        self._rounds: Rounds[_Question] = Rounds(self._answered)

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        # A Connect server would keep them after an error, and a second try would read them instead of what
        # the lake has by then.
        while self._kept:
            self._kept.pop().unpersist()

    def each(self, work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """Applies `work` to each item, such as a table; their questions are answered by shared Spark jobs."""
        return self._rounds.each(work, items)

    def nothing(self, schema: pa.Schema) -> SparkRows:
        return SparkRows(self, schema, ())

    def read(self, source: InParts) -> SparkRows:
        """Returns rows that the workers read."""
        origin = Read(sum(source.weights), source)
        return SparkRows(self, source.schema, (_Flow(origin),) if source.parts else ())

    def given(self, table: pa.Table) -> SparkRows:
        """Returns a few rows of this process."""
        return self.read(Given(table.combine_chunks()))

    def of_spark(self, frame: DataFrame, rows: int = 0, schema: pa.Schema | None = None) -> SparkRows:
        """Returns a DataFrame's rows in the types of `schema`. `rows`: their approximate number."""
        kinds = to_arrow_schema(frame.schema) if schema is None else schema
        return SparkRows(self, kinds, (_Flow(OfSpark(rows, frame, kinds)),))

    def answers(self, asked: Sequence[Asked]) -> list[pa.Table]:
        """Answers the questions, in one Spark job with those of other threads at that moment."""
        tables: list[pa.Table] = self._rounds.ask(list(asked))
        return tables

    def bucketed(self, asked: _InBuckets) -> dict[str, Rows]:
        outputs: dict[str, Rows] = self._rounds.ask(asked)
        return outputs

    def kept(self, frame: DataFrame) -> DataFrame:
        """Persists the DataFrame until the stage ends, and returns it."""
        self._kept.append(frame.persist())
        return frame

    def no_rows(self, schema: pa.Schema) -> DataFrame:
        return self._session().createDataFrame([], spark_schema(schema))

    def _answered(self, questions: list[_Question]) -> list[Any]:
        in_buckets = [question for question in questions if isinstance(question, _InBuckets)]
        asked = [ask for question in questions if not isinstance(question, _InBuckets) for ask in question]
        outputs, tables = iter(self._in_buckets(in_buckets)), iter(self._tables(asked))
        return [
            next(outputs) if isinstance(question, _InBuckets) else [next(tables) for _ in question]
            for question in questions
        ]

    def _tables(self, asked: Sequence[Asked]) -> list[pa.Table]:
        leaves = [
            (flow, partial(request.sink or partial(sinks.Answer, room=request.most), number))
            for number, request in enumerate(asked)
            for flow in request.rows.flows
        ]
        answers: list[list[pa.Buffer]] = [[] for _ in asked]
        if leaves:
            came = reduce(DataFrame.union, self.frames(leaves, PACKED)).toArrow()
            for number, rows in zip(came.column(TO).to_pylist(), came.column(ROWS), strict=True):
                answers[number].append(rows.as_buffer())
        return [request.table(rows) for request, rows in zip(asked, answers, strict=True)]

    def _in_buckets(self, asked: Sequence[_InBuckets]) -> list[dict[str, Rows]]:
        dealing = Dealing.of([request.sizes for request in asked])
        leaves = [
            (flow, partial(sinks.Deal, f"{number}/{name}", part.key, dealing.tasks[number]))
            for number, request in enumerate(asked)
            for name, part in request.parts.items()
            for flow in as_spark(part.rows).flows
        ]
        if not leaves:
            return [{name: self.nothing(s) for name, s in request.outputs.items()} for request in asked]
        kernels = _each_pickled(
            tasks.Bucketing(
                request.kernel, {n: p.rows.schema for n, p in request.parts.items()}, request.outputs
            )
            for request in asked
        )
        dealt = reduce(DataFrame.union, self.frames(leaves, PACKED))
        of_buckets = dealt.repartitionById(dealing.number, F.col(TO))
        packed = self.kept(of_buckets.mapInArrow(partial(tasks.in_buckets, kernels), _PACKED))
        return [
            {
                name: SparkRows(self, schema, (_Flow(KernelOutput(dealing.rows, packed, number, name)),))
                for name, schema in request.outputs.items()
            }
            for number, request in enumerate(asked)
        ]

    def frames(self, leaves: Sequence[tuple[_Flow, Sink]], schema: pa.Schema) -> list[DataFrame]:
        """Returns DataFrames of what the sinks make of the flows' rows.

        There is one for all rows that workers read, one for each job of bucket kernels, and one for each
        DataFrame of Spark's own rows.
        """
        by_origin: dict[Origin, list[tuple[Sequence[BatchKernel], Sink]]] = {}
        for flow, sink in leaves:
            by_origin.setdefault(flow.origin, []).append((flow.steps, sink))
        trees = {origin: tasks.tree(of) for origin, of in by_origin.items()}
        kinds, dataframes = spark_schema(schema), []
        read = {origin: of for origin, of in trees.items() if isinstance(origin, Read)}
        if read:
            of_tasks = in_tasks([origin.source for origin in read])
            numbers = self._session().range(0, len(of_tasks), 1, len(of_tasks))
            sources = (origin.source.without_parts() for origin in read)
            pickled = (_each_pickled(of) for of in (of_tasks, sources, read.values()))
            reading = partial(tasks.read_parts, *pickled)
            dataframes.append(numbers.mapInArrow(reading, kinds))
        kernel_outputs: dict[int, tuple[DataFrame, dict[str, tasks.Tree]]] = {}
        for origin, of in trees.items():
            if isinstance(origin, KernelOutput):
                kernel_outputs.setdefault(id(origin.packed), (origin.packed, {}))[1][origin.part] = of
            elif isinstance(origin, OfSpark):
                reading = partial(tasks.read_rows, origin.schema, of)
                dataframes.append(origin.frame.mapInArrow(reading, kinds))
        for packed, parts in kernel_outputs.values():
            wanted = packed.where(F.col(PART).isin(*parts))
            dataframes.append(wanted.mapInArrow(partial(tasks.read_packed, parts), kinds))
        return dataframes


def _each_pickled(values: Iterable[object]) -> Pickles:
    shared: dict[int, tuple[int, Any]] = {}
    each = []
    for value in values:
        pickled = BytesIO()
        _Pickler(pickled, shared).dump(value)  # type: ignore[no-untyped-call]
        each.append(pickled.getvalue())
    of_several = (cloudpickle.dumps(table) for _, table in shared.values())  # type: ignore[no-untyped-call]
    return Pickles(tuple(each), tuple(of_several))


class _Pickler(cloudpickle.Pickler):
    """Pickles a value without its large tables and arrays, which go to `shared`, by identity."""

    def __init__(self, file: BytesIO, shared: dict[int, tuple[int, Any]]) -> None:
        super().__init__(file)  # type: ignore[no-untyped-call]
        self._shared = shared

    def persistent_id(self, value: Any) -> int | None:
        if isinstance(value, pa.Table | np.ndarray) and value.nbytes >= _LARGE:
            return self._shared.setdefault(id(value), (len(self._shared), value))[0]
        return None


def spark_schema(schema: pa.Schema) -> StructType:
    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


_PACKED: Final = spark_schema(PACKED)
