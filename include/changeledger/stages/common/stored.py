"""Tables of the lake as kernels read them: here where they are small, else by Spark's workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from changeledger.kernels.rows import Here, Rows
from changeledger.lake import scans
from changeledger.lake.scans import Weight
from changeledger.lake.spread import Spread, as_frame, as_table
from changeledger.model.change import quoted
from changeledger.spark.caching import Cache
from changeledger.spark.session import for_small_data
from changeledger.stages.common.context import MOST_ROWS

# In files, which are packed.
_MOST_BYTES = 64 << 20


@dataclass(frozen=True)
class Stored:
    """Rows of a table in the lake. `size`: how many, about. `held`: the rows, where they are here."""

    frame: DataFrame
    size: int
    held: pa.Table | None = None

    def rows(self, names: Sequence[str], cache: Cache, near: tuple[bytes, bytes] | None = None) -> Rows:
        """These columns. `near`: between which commit LSNs rows are needed; others may come, too."""
        if self.held is not None:
            return Here(self.held.select(list(names)))
        frame = self.frame if near is None else self.frame.where(_between(near))
        return Spread.of(frame.select(*map(quoted, names)), cache, self.size)

    def among(self, names: Sequence[str], column: str, values: Rows, cache: Cache) -> Rows:
        """These columns of the rows whose `column` is one of `values`, which have one column."""
        if self.held is not None:
            wanted = pc.unique(values.collected().column(0))
            return Here(self.held.filter(pc.is_in(self.held.column(column), wanted)).select(list(names)))
        (name,) = values.schema.names
        wanted = as_frame(self.frame.sparkSession, values).where(F.col(name).isNotNull()).distinct()
        found = self.frame.join(wanted, self.frame[column] == wanted[name], "left_semi")
        rows = found.select(*map(quoted, names))
        return Here(as_table(rows)) if isinstance(values, Here) else Spread.of(rows, cache, self.size)

    def read_here(self, between: tuple[bytes, bytes], size: int) -> Stored:
        """Its rows between these commit LSNs, which are `size`."""
        return Stored(self.frame, size, as_table(self.frame.where(_between(between))))


def _between(lsns: tuple[bytes, bytes]) -> Column:
    since, until = lsns
    return (F.col("commit_lsn") >= F.lit(since)) & (F.col("commit_lsn") < F.lit(until))


def weights(tables: Sequence[str]) -> dict[str, Weight]:
    """Of the files of each table, with rows that are deleted in them."""
    return {table: scans.weight(table) for table in tables}


def stored(frames: Mapping[str, DataFrame], weight: Mapping[str, Weight]) -> dict[str, Stored]:
    """By name; where all together are small they are read here, by one query."""
    rows, packed = (sum(weight[name][at] for name in frames) for at in (0, 1))
    if rows > MOST_ROWS or packed > _MOST_BYTES:
        for frame in frames.values():
            for_small_data(frame.sparkSession, small=False)
        return {name: Stored(frame, weight[name][0]) for name, frame in frames.items()}
    held = _held(frames) if frames else {}
    return {name: Stored(frame, weight[name][0], held[name]) for name, frame in frames.items()}


def _held(frames: Mapping[str, DataFrame]) -> dict[str, pa.Table]:
    """The rows of all frames, by one query: each has its columns in a struct of its own."""
    kinds = [frame.schema for frame in frames.values()]

    def parted(number: int, frame: DataFrame) -> DataFrame:
        own = F.struct(*(F.col(quoted(name)) for name in frame.columns))
        columns = (own if at == number else F.lit(None).cast(kind) for at, kind in enumerate(kinds))
        return frame.select(*(column.alias(str(at)) for at, column in enumerate(columns)))

    union: Callable[[DataFrame, DataFrame], DataFrame] = DataFrame.union
    rows = as_table(reduce(union, [parted(*one) for one in enumerate(frames.values())]))
    return {name: _unpacked(rows.column(str(at))) for at, name in enumerate(frames)}


def _unpacked(structs: pa.ChunkedArray) -> pa.Table:
    """The rows of the structs that are not NULL."""
    there = structs.drop_null()
    batches = [pa.RecordBatch.from_struct_array(chunk) for chunk in there.chunks]
    return pa.Table.from_batches(batches, pa.schema(list(there.type)))
