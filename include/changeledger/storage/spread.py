"""Rows spread over Spark's partitions, which carry the kernels (`kernels.rows`)."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from zipimport import zipimporter

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from changeledger.kernels.rows import BatchKernel, BucketKernel, Here, Part, Rows
from changeledger.model.change import quoted
from changeledger.storage.caching import Cache

# So many rows a kernel gets at once, about: few enough for a worker's memory, enough to be worth a call.
_BUCKET = 50_000
# Rows of a batch on their way to Spark.
_BATCH = 10_000
_KEY, _PART, _ROWS = "_bucket", "_part", "_rows"
# What a bucket has made, on its way through Spark: batches of rows in Arrow's own bytes, and whose they are.
# Spark would take each row apart, to keep it at hand and again to hand it on.
_PACKED = pa.schema([(_PART, pa.string()), (_ROWS, pa.binary())])


@dataclass(frozen=True)
class Spread:
    """Rows of a DataFrame. Kernels wait in `steps`, and go over each batch in one pass.

    `size`: how many rows there are, about. `keep`: rows that several ask for are kept at hand by it.
    `is_packed`: has the DataFrame batches (`_PACKED`) instead of rows?
    """

    base: DataFrame
    schema: pa.Schema
    cache: Cache
    size: int
    steps: tuple[BatchKernel, ...] = ()
    is_packed: bool = False

    @classmethod
    def of(cls, frame: DataFrame, cache: Cache, size: int, schema: pa.Schema | None = None) -> Spread:
        """The frame's rows, in the types of `schema`."""
        if schema is None:
            return cls(frame, to_arrow_schema(frame.schema), cache, size)
        return cls(frame, schema, cache, size, (partial(_typed, schema),))

    @property
    def frame(self) -> DataFrame:
        if not self.steps and not self.is_packed:
            return self.base
        work = partial(_stepped, self.steps, is_packed=self.is_packed)
        return self.base.mapInArrow(work, spark_schema(self.schema))

    def through(self, kernel: BatchKernel, schema: pa.Schema) -> Spread:
        return replace(self, schema=schema, steps=(*self.steps, kernel))

    def collected(self, most: int | None = None) -> pa.Table:
        return as_table(self.frame if most is None else self.frame.limit(most), self.schema)

    def bucketed(
        self, parts: Mapping[str, Part], kernel: BucketKernel, outputs: Mapping[str, pa.Schema]
    ) -> dict[str, Rows]:
        schemas = {name: part.rows.schema for name, part in parts.items()}
        there = {name: part for name, part in parts.items() if not _is_empty(part.rows)}
        columns = {name: schemas[name] for name in there}
        frames = [_keyed(self._frame_of(part.rows), name, part.key, columns) for name, part in there.items()]
        rows = reduce(DataFrame.union, frames)
        number = max(2, -(-self.size // _BUCKET))
        made = self.cache(
            rows.repartition(number, _KEY)
            .drop(_KEY)
            .mapInArrow(partial(_bucket, kernel, schemas, outputs), spark_schema(_PACKED))
        )
        return {
            name: replace(
                self, base=made.where(F.col(_PART) == name), schema=schema, steps=(), is_packed=True
            )
            for name, schema in outputs.items()
        }

    def and_all(self, others: Sequence[Rows]) -> Spread:
        frames = [self.frame, *(self._frame_of(one) for one in others)]
        return replace(self, base=reduce(DataFrame.unionByName, frames), steps=(), is_packed=False)

    def _frame_of(self, rows: Rows) -> DataFrame:
        return as_frame(self.base.sparkSession, rows)


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


def _typed(schema: pa.Schema, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch, in the lake's types: Iceberg has no narrow numbers, and Spark names the parts of lists."""
    return pa.RecordBatch.from_arrays([batch.column(f.name).cast(f.type) for f in schema], schema=schema)


def _is_empty(rows: Rows) -> bool:
    """Are there certainly none?"""
    return isinstance(rows, Here) and not len(rows.table)


def _stepped(
    steps: Sequence[BatchKernel], batches: Iterable[pa.RecordBatch], *, is_packed: bool
) -> Iterator[pa.RecordBatch]:
    _forget_archives()
    for batch in _unpacked(batches) if is_packed else batches:
        made = reduce(lambda rows, step: step(rows), steps, batch)
        if made.num_rows:
            yield made


def _forget_archives() -> None:
    """Before each task a worker reads the directories of the archives again that it imports from, Spark's own
    Python among them: a tenth of a second. It does so for finders that are there; they are made when needed.
    """
    archives = [path for path, one in sys.path_importer_cache.items() if isinstance(one, zipimporter)]
    for path in archives:
        del sys.path_importer_cache[path]


def _packed(part: str, batch: pa.RecordBatch) -> pa.RecordBatch:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as out:
        out.write_batch(batch)
    values = [pa.array([part]), pa.array([sink.getvalue().to_pybytes()], pa.binary())]
    return pa.RecordBatch.from_arrays(values, schema=_PACKED)


def _unpacked(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for rows in batch.column(_ROWS):
            yield from pa.ipc.open_stream(rows.as_buffer())


def _keyed(frame: DataFrame, part: str, key: str, schemas: Mapping[str, pa.Schema]) -> DataFrame:
    own = F.struct(*(F.col(quoted(name)) for name in frame.columns))
    columns = [
        (own if name == part else F.lit(None).cast(spark_schema(schema))).alias(name)
        for name, schema in schemas.items()
    ]
    return frame.select(F.expr(key).alias(_KEY), F.lit(part).alias(_PART), *columns)


def _bucket(
    kernel: BucketKernel,
    schemas: Mapping[str, pa.Schema],
    outputs: Mapping[str, pa.Schema],
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    _forget_archives()
    found = list(batches)
    if not sum(batch.num_rows for batch in found):
        return
    made = kernel({name: _table_of(found, name, schema) for name, schema in schemas.items()})
    for name, schema in outputs.items():
        for batch in made[name].cast(schema).combine_chunks().to_batches(_BATCH):
            yield _packed(name, batch)


def _table_of(batches: Sequence[pa.RecordBatch], part: str, schema: pa.Schema) -> pa.Table:
    if part not in batches[0].schema.names:
        return schema.empty_table()
    own = [batch.filter(pc.equal(batch.column(_PART), part)).column(part) for batch in batches]
    tables = [pa.Table.from_arrays(cells.flatten(), names=schema.names) for cells in own if len(cells)]
    return pa.concat_tables(tables).cast(schema) if tables else schema.empty_table()
