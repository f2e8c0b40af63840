"""Rows spread over Spark's partitions, which carry the kernels (`kernels.rows`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from changeledger.kernels.arrow import empty
from changeledger.kernels.rows import BatchKernel, BucketKernel, Here, Part, Rows, unchanged
from changeledger.lake.file_writes import FILES, Writing
from changeledger.lake.partitions import numbers_of_partitions
from changeledger.lake.worker_batches import (
    BUCKET,
    PACKED,
    PART,
    TO,
    Batches,
    InParts,
    carried,
    deal,
    of_bucket,
    read,
    typed,
    unpacked,
)
from changeledger.spark.caching import Cache


@dataclass(frozen=True)
class Source:
    """Where rows come from: a DataFrame, what opens its batches, and kernels that go over each of them."""

    base: DataFrame
    opened: Callable[[Batches], Batches] = iter
    steps: tuple[BatchKernel, ...] = ()

    def rows(self, schema: pa.Schema) -> DataFrame:
        if self.opened is iter and not self.steps:
            return self.base
        return self.through(unchanged, schema)

    def through(self, work: Callable[[Batches], Batches], schema: pa.Schema) -> DataFrame:
        """What `work` makes of the rows of each partition."""
        return self.base.mapInArrow(partial(carried, self.opened, self.steps, work), spark_schema(schema))


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
        return cls((Source(frame, steps=(partial(typed, schema),)),), schema, cache, size)

    @classmethod
    def of_parts(cls, spark: SparkSession, source: InParts, cache: Cache, size: int) -> Spread:
        """The rows that workers read."""
        numbers = spark.range(0, len(source.parts), 1, max(len(source.parts), 1))
        return cls((Source(numbers, partial(read, source)),), source.schema, cache, size)

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
        targets = numbers_of_partitions(max(2, -(-self.size // BUCKET)))
        dealt = _united([frame for name, part in parts.items() for frame in self._dealt(name, part, targets)])
        made = self.cache(
            dealt.repartition(len(targets), TO).mapInArrow(
                partial(of_bucket, kernel, schemas, outputs), spark_schema(PACKED)
            )
        )
        return {
            name: replace(self, sources=(Source(made.where(F.col(PART) == name), unpacked),), schema=schema)
            for name, schema in outputs.items()
        }

    def _dealt(self, name: str, part: Part, targets: Sequence[int]) -> list[DataFrame]:
        dealing = partial(deal, name, part.key, targets)
        if isinstance(part.rows, Spread):
            return [source.through(dealing, PACKED) for source in part.rows.sources]
        packed = list(dealing(iter(part.rows.collected().combine_chunks().to_batches())))
        frame = as_frame(self.spark, Here(pa.Table.from_batches(packed, PACKED)))
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
    # In one piece: a chunk without rows would end what Spark reads, and what follows it would be lost. Of no
    # piece at all pyspark cannot tell the types.
    pieces = rows.collected().combine_chunks().to_batches() or [empty(rows.schema)]
    return spark.createDataFrame(pa.Table.from_batches(pieces), spark_schema(rows.schema))


def as_table(frame: DataFrame, schema: pa.Schema | None = None) -> pa.Table:
    """The rows of a small DataFrame here, in the types of `schema`."""
    found = frame.toArrow()
    return found if schema is None else found.cast(schema)


def spark_schema(schema: pa.Schema) -> StructType:
    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


def _united(frames: Sequence[DataFrame]) -> DataFrame:
    return reduce(DataFrame.unionByName, frames)
