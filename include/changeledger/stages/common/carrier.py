"""Who carries a window's rows through the kernels: this process, or Spark's workers where there are many."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa
from pyiceberg.expressions import BooleanExpression
from pyspark.sql import DataFrame, SparkSession

from changeledger.config.settings import Settings
from changeledger.kernels.rows import BatchKernel, Here, Rows, unchanged
from changeledger.lake import catalog, scans
from changeledger.lake.file_scans import Scan
from changeledger.lake.spread import Spread, as_table
from changeledger.spark.caching import Cache, uncached
from changeledger.spark.session import for_rows_of, for_small_data
from changeledger.stages.common import input_records
from changeledger.stages.common.context import StageContext

# Of files, which are packed.
_MOST_BYTES = 64 << 20


class Carrier(NamedTuple):
    """`size`: how many rows there are; None: few."""

    size: int | None
    cache: Cache

    @classmethod
    def of_raw(cls, ctx: StageContext, cache: Cache) -> Carrier:
        """For the raw records of a run."""
        rows, packed = (
            sum(of) for of in zip((0, 0), *(scans.weight(raw, ctx.id) for raw in ctx.raws), strict=True)
        )
        others = input_records.waiting(ctx)
        if others is not None:
            rows += others.count()
        if input_records.replayed(ctx) is not None:
            rows += sum(input_records.raw(ctx, raw).count() for raw in ctx.raws)
        for_rows_of(ctx.spark, packed // max(rows, 1), _MOST_BYTES)
        return cls(rows if rows > Settings().rows_here or packed > _MOST_BYTES else None, cache)

    @classmethod
    def for_rows(cls, rows: int, cache: Cache) -> Carrier:
        return cls(rows if rows > Settings().rows_here else None, cache)

    @classmethod
    def of(cls, rows: Rows) -> Carrier:
        """Whoever carries these rows carries those that are read for them."""
        return cls(rows.size, rows.cache) if isinstance(rows, Spread) else cls(None, uncached)

    def scanned(
        self,
        spark: SparkSession,
        table: str,
        where: BooleanExpression,
        of: tuple[pa.Schema, int | None],
        among: BatchKernel | None = None,
    ) -> Rows:
        """The rows of a table that meet a condition. `of`: their columns, and the snapshot (None: main).

        `among`: the kernel of those that are wanted; only these are in memory at once.
        """
        schema, snapshot = of
        scan = Scan.of(catalog.load(table), where, schema, snapshot)
        if self.size is None:
            return Here(pa.Table.from_batches(scan.all_rows(among or unchanged), schema))
        for_small_data(spark, small=False)
        found = Spread.of_parts(spark, scan, self.cache, self.size)
        return found if among is None else found.through(among, schema)

    def carried(self, frame: DataFrame, schema: pa.Schema | None = None) -> Rows:
        """The rows, in the types of `schema`."""
        if self.size is None:
            return Here(as_table(frame, schema))
        for_small_data(frame.sparkSession, small=False)
        return Spread.of(frame, self.cache, self.size, schema)
