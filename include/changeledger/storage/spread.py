"""Rows spread over Spark's partitions, which carry the kernels (`kernels.rows`)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Final
from zipimport import zipimporter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from changeledger.kernels.hashed import Key
from changeledger.kernels.rows import BatchKernel, BucketKernel, Here, Part, Rows, as_batch
from changeledger.storage.caching import Cache
from changeledger.storage.file_scans import Scan
from changeledger.storage.file_writes import FILES, Writing, gathered
from changeledger.storage.partitions import numbers_of_partitions

Batches = Iterator[pa.RecordBatch]

# So many rows a kernel gets at once, about: few enough for a worker's memory, enough to be worth a call.
_BUCKET = 50_000
# So many rows are dealt out to buckets at once: what a bucket gets of them travels in one piece.
_DEALT = 100_000
# What travels through Spark: batches of rows in Arrow's own bytes, which bucket they go into and whose they
# are. Spark would take each row apart, to keep it and again to hand it on.
_TO, _PART, _ROWS = "to", "part", "rows"
_PACKED: Final = pa.schema([(_TO, pa.int32()), (_PART, pa.string()), (_ROWS, pa.binary())])


@dataclass(frozen=True)
class Source:
    """Where rows come from: a DataFrame, what opens its batches, and kernels that go over each of them."""

    base: DataFrame
    opened: Callable[[Batches], Batches] = iter
    steps: tuple[BatchKernel, ...] = ()

    def rows(self, schema: pa.Schema) -> DataFrame:
        if self.opened is iter and not self.steps:
            return self.base
        return self.through(_non_empty, schema)

    def through(self, work: Callable[[Batches], Batches], schema: pa.Schema) -> DataFrame:
        """What `work` makes of the rows of each partition."""
        return self.base.mapInArrow(partial(_carried, self.opened, self.steps, work), spark_schema(schema))


@dataclass(frozen=True)
class Spread:
    """Rows of several sources. Kernels wait in their steps, and go over each batch in one pass.

    `size`: how many rows there are, about. `cache`: rows that several ask for are kept by it.
    """

    sources: tuple[Source, ...]
    schema: pa.Schema
    cache: Cache
    size: int

    @classmethod
    def of(cls, frame: DataFrame, cache: Cache, size: int, schema: pa.Schema | None = None) -> Spread:
        """The frame's rows, in the types of `schema`."""
        if schema is None:
            return cls((Source(frame),), to_arrow_schema(frame.schema), cache, size)
        return cls((Source(frame, steps=(partial(_typed, schema),)),), schema, cache, size)

    @classmethod
    def of_files(cls, spark: SparkSession, scan: Scan, cache: Cache, size: int) -> Spread:
        """The rows of the lake's files."""
        numbers = spark.range(0, len(scan.parts), 1, max(len(scan.parts), 1))
        return cls((Source(numbers, scan),), scan.schema, cache, size)

    @property
    def frame(self) -> DataFrame:
        return _united([source.rows(self.schema) for source in self.sources])

    @property
    def spark(self) -> SparkSession:
        return self.sources[0].base.sparkSession

    def through(self, kernel: BatchKernel, schema: pa.Schema) -> Spread:
        sources = tuple(replace(source, steps=(*source.steps, kernel)) for source in self.sources)
        return replace(self, sources=sources, schema=schema)

    def collected(self, most: int | None = None) -> pa.Table:
        return as_table(self.frame if most is None else self.frame.limit(most), self.schema)

    def bucketed(
        self, parts: Mapping[str, Part], kernel: BucketKernel, outputs: Mapping[str, pa.Schema]
    ) -> dict[str, Rows]:
        schemas = {name: part.rows.schema for name, part in parts.items()}
        targets = numbers_of_partitions(max(2, -(-self.size // _BUCKET)))
        dealt = _united([frame for name, part in parts.items() for frame in self._dealt(name, part, targets)])
        made = self.cache(
            dealt.repartition(len(targets), _TO).mapInArrow(
                partial(_bucket, kernel, schemas, outputs), spark_schema(_PACKED)
            )
        )
        return {
            name: replace(self, sources=(Source(made.where(F.col(_PART) == name), _unpacked),), schema=schema)
            for name, schema in outputs.items()
        }

    def _dealt(self, name: str, part: Part, targets: Sequence[int]) -> list[DataFrame]:
        deal = partial(_deal, name, part.key, targets)
        if isinstance(part.rows, Spread):
            return [source.through(deal, _PACKED) for source in part.rows.sources]
        packed = list(deal(iter(part.rows.collected().combine_chunks().to_batches())))
        frame = as_frame(self.spark, Here(pa.Table.from_batches(packed, _PACKED)))
        return [frame] if packed else []

    def and_all(self, others: Sequence[Rows]) -> Spread:
        added = [one if isinstance(one, Spread) else self._spread(one) for one in others]
        sources = [source for one in added for source in one.sources]
        return replace(self, sources=(*self.sources, *sources))

    def _spread(self, rows: Rows) -> Spread:
        return replace(self, sources=(Source(as_frame(self.spark, rows)),))

    def written(self, writing: Writing) -> pa.Table:
        """`FILES` that the workers have written of the rows."""
        return as_table(_united([source.through(writing, FILES) for source in self.sources]), FILES)


def as_frame(spark: SparkSession, rows: Rows) -> DataFrame:
    if isinstance(rows, Spread):
        return rows.frame
    # In one piece: a chunk without rows would end what Spark reads, and what follows it would be lost.
    whole = rows.collected().combine_chunks()
    return spark.createDataFrame(whole, spark_schema(rows.schema))


def as_table(frame: DataFrame, schema: pa.Schema | None = None) -> pa.Table:
    """The rows of a small DataFrame here, in the types of `schema`."""
    found = frame.toArrow()
    return found if schema is None else found.cast(schema)


def spark_schema(schema: pa.Schema) -> StructType:
    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


def _united(frames: Sequence[DataFrame]) -> DataFrame:
    return reduce(DataFrame.unionByName, frames)


def _typed(schema: pa.Schema, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch, in the lake's types: Iceberg has no narrow numbers, and Spark names the parts of lists."""
    return pa.RecordBatch.from_arrays([batch.column(f.name).cast(f.type) for f in schema], schema=schema)


def _carried(
    opened: Callable[[Batches], Batches],
    steps: Sequence[BatchKernel],
    work: Callable[[Batches], Batches],
    batches: Batches,
) -> Batches:
    _forget_archives()
    rows = (reduce(lambda made, step: step(made), steps, batch) for batch in opened(batches))
    return work(batch for batch in rows if batch.num_rows)


def _non_empty(batches: Batches) -> Batches:
    return batches


def _forget_archives() -> None:
    """Before each task a worker reads the directories of the archives again that it imports from, Spark's own
    Python among them: a tenth of a second. It does so for finders that are there; they are made when needed.
    """
    archives = [path for path, one in sys.path_importer_cache.items() if isinstance(one, zipimporter)]
    for path in archives:
        del sys.path_importer_cache[path]


def _deal(part: str, key: Key, targets: Sequence[int], batches: Iterable[pa.RecordBatch]) -> Batches:
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
    return pa.RecordBatch.from_arrays(values, schema=_PACKED)


def _unpacked(batches: Iterable[pa.RecordBatch]) -> Batches:
    for batch in batches:
        for rows in batch.column(_ROWS):
            yield from pa.ipc.open_stream(rows.as_buffer())


def _bucket(
    kernel: BucketKernel,
    schemas: Mapping[str, pa.Schema],
    outputs: Mapping[str, pa.Schema],
    batches: Iterable[pa.RecordBatch],
) -> Batches:
    _forget_archives()
    found = list(batches)
    if not sum(batch.num_rows for batch in found):
        return
    made = kernel({name: _table_of(found, name, schema) for name, schema in schemas.items()})
    for name, schema in outputs.items():
        for batch in made[name].cast(schema).combine_chunks().to_batches(_BUCKET):
            yield _packed(0, name, batch)


def _table_of(batches: Sequence[pa.RecordBatch], part: str, schema: pa.Schema) -> pa.Table:
    own = [batch.filter(pc.equal(batch.column(_PART), part)) for batch in batches]
    return pa.Table.from_batches(list(_unpacked(own)), schema).cast(schema)
