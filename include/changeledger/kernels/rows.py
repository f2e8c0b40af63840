"""Interface of rows that pass through kernels: stages describe the steps, an implementation runs them.

In the pipeline Spark's workers do (`spark.rows`). Without Spark (`decode`, tests of kernels), the process
itself does (`kernels.in_memory`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from changeledger.kernels.arrow import empty
from changeledger.kernels.hashed import Key
from changeledger.model.errors import RowsTooLarge

# One batch in, one batch out; how rows are cut into batches changes nothing.
BatchKernel = Callable[[pa.RecordBatch], pa.RecordBatch]
# Called once per bucket: tables by name in, tables by name out.
BucketKernel = Callable[[Mapping[str, pa.Table]], Mapping[str, pa.Table]]


Unchanged = TypeVar("Unchanged")


def unchanged(rows: Unchanged) -> Unchanged:
    """Identity kernel."""
    return rows


class Rows(Protocol):
    """Rows of one schema."""

    @property
    def schema(self) -> pa.Schema: ...

    def through(self, kernel: BatchKernel, schema: pa.Schema) -> Rows:
        """Applies the kernel to each batch."""
        ...

    def collected(self, most: int | None = None) -> pa.Table:
        """Collects the rows in this process: all, or any `most` of them."""
        ...

    def collected_with(self, others: Sequence[Rows]) -> list[pa.Table]:
        """Collects these rows and the others in one pass over their source."""
        ...

    def bucketed(
        self, parts: Mapping[str, Part], kernel: BucketKernel, outputs: Mapping[str, pa.Schema]
    ) -> dict[str, Rows]:
        """See the function `bucketed`. These rows are those of the first part."""
        ...

    def and_all(self, others: Sequence[Rows]) -> Rows:
        """Unions these rows with others of the same schema."""
        ...


class Part(NamedTuple):
    """Rows to split into buckets. Rows with an equal `key` go into the same bucket."""

    rows: Rows
    key: Key


def bucketed(
    parts: Mapping[str, Part], kernel: BucketKernel, outputs: Mapping[str, pa.Schema]
) -> dict[str, Rows]:
    """Applies the kernel to each bucket. Rows of all parts with the same key share a bucket."""
    first = next(iter(parts.values()))
    return first.rows.bucketed(parts, kernel, outputs)


def kept(parts: Mapping[str, Part]) -> dict[str, Rows]:
    """Keeps the rows of each part, so that they are read once, however often they are used."""
    return bucketed(parts, unchanged, {name: part.rows.schema for name, part in parts.items()})


COUNT: Final = pa.schema([("n", pa.int64())])


def count(rows: Rows) -> int:
    """Counts the rows. Only the batches' counts are collected."""
    return sum(rows.through(counted, COUNT).collected().column("n").to_pylist())


def counted(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Kernel with schema `COUNT`: counts the rows of a batch."""
    return pa.RecordBatch.from_pydict({"n": [len(rows)]}, schema=COUNT)


VALUES: Final = pa.schema([("value", pa.string()), ("n", pa.int64())])


def values_counted(rows: Rows, name: str) -> Rows:
    """Counts the rows with each value of a column, batch by batch, in schema `VALUES`."""
    return rows.through(partial(_counted_by, name), VALUES)


def _counted_by(name: str, rows: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(pc.value_counts(rows.column(name)).flatten(), schema=VALUES)


def summed(counts: pa.Table) -> dict[str, int]:
    """Sums `VALUES` by value."""
    sums = counts.group_by("value").aggregate([("n", "sum")])
    return dict(zip(*(sums.column(name).to_pylist() for name in ("value", "n_sum")), strict=True))


def tallied(batches: Iterable[pa.RecordBatch]) -> Counter[tuple[Any, ...]]:
    """Counts the rows with each combination of values."""
    numbers: Counter[tuple[Any, ...]] = Counter()
    for batch in batches:
        names = batch.schema.names
        counts = pa.Table.from_batches([batch]).group_by(names).aggregate([([], "count_all")])
        for row in counts.select([*names, "count_all"]).to_pylist():
            *values, number = row.values()
            numbers[*values] += number
    return numbers


def chosen(rows: Rows, names: Sequence[str]) -> Rows:
    """Selects columns."""
    schema = pa.schema([rows.schema.field(name) for name in names])
    return rows.through(partial(_select, list(names)), schema)


def _select(names: Sequence[str], rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.select(names)


def where(rows: Rows, name: str, value: str | int | bool) -> Rows:
    """Selects the rows with this value in a column."""
    return rows.through(partial(_where, name, value), rows.schema)


def _where(name: str, value: str | int | bool, rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.filter(pc.equal(rows.column(name), value))


def together(rows: Sequence[Rows]) -> Rows:
    """Unions rows of the same schema."""
    return rows[0].and_all(rows[1:]) if len(rows) > 1 else rows[0]


def as_batch(table: pa.Table) -> pa.RecordBatch:
    """Returns the table as one batch. Raises RowsTooLarge if a column has more than 2 GiB of texts or bytes.

    Arrow's offsets have 32 bits, so `combine_chunks` leaves such a column in several pieces.
    """
    batches = table.combine_chunks().to_batches()
    if len(batches) > 1:
        raise RowsTooLarge(
            f"{table.num_rows} rows have a column of more than 2 GiB, which one process cannot hold at once",
            "run shorter windows: one process then gets fewer changes of one key or one moment",
        )
    return batches[0] if batches else empty(table.schema)
