"""Rows on their way through kernels: a stage says what becomes of them, and whoever carries them does it.

In the pipeline Spark's workers carry them (`spark.rows`). Where no Spark is (`decode`, tests of kernels), the
process itself does (`kernels.in_memory`).
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
# Tables by name in, tables by name out; of each bucket.
BucketKernel = Callable[[Mapping[str, pa.Table]], Mapping[str, pa.Table]]


Unchanged = TypeVar("Unchanged")


def unchanged(rows: Unchanged) -> Unchanged:
    """The kernel that gives what it gets."""
    return rows


class Rows(Protocol):
    """Rows of one schema."""

    @property
    def schema(self) -> pa.Schema: ...

    def through(self, kernel: BatchKernel, schema: pa.Schema) -> Rows:
        """What the kernel makes of each batch."""
        ...

    def collected(self, most: int | None = None) -> pa.Table:
        """The rows in this process; not more than `most`, whichever."""
        ...

    def collected_with(self, others: Sequence[Rows], most: int | None = None) -> list[pa.Table]:
        """These rows and those, by one pass over what they come from."""
        ...

    def bucketed(
        self, parts: Mapping[str, Part], kernel: BucketKernel, outputs: Mapping[str, pa.Schema]
    ) -> dict[str, Rows]:
        """See `bucketed`; these rows are of the first part."""
        ...

    def and_all(self, others: Sequence[Rows]) -> Rows:
        """These rows and those, which have the same schema."""
        ...


class Part(NamedTuple):
    """Rows that go into buckets. `key`: equal for what must be in one bucket."""

    rows: Rows
    key: Key


def bucketed(
    parts: Mapping[str, Part], kernel: BucketKernel, outputs: Mapping[str, pa.Schema]
) -> dict[str, Rows]:
    """What the kernel makes of each bucket of all parts; rows of one key are in one bucket, of every part."""
    first = next(iter(parts.values()))
    return first.rows.bucketed(parts, kernel, outputs)


def kept(parts: Mapping[str, Part]) -> dict[str, Rows]:
    """The rows of each part: they are read once, however many ask for them."""
    return bucketed(parts, unchanged, {name: part.rows.schema for name, part in parts.items()})


COUNT: Final = pa.schema([("n", pa.int64())])


def count(rows: Rows) -> int:
    """How many rows there are: only numbers travel."""
    return sum(rows.through(counted, COUNT).collected().column("n").to_pylist())


def counted(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The kernel of `COUNT`: how many rows a batch has."""
    return pa.RecordBatch.from_pydict({"n": [len(rows)]}, schema=COUNT)


VALUES: Final = pa.schema([("value", pa.string()), ("n", pa.int64())])


def values_counted(rows: Rows, name: str) -> Rows:
    """`VALUES`: how many rows have each value of a column, batch by batch."""
    return rows.through(partial(_counted_by, name), VALUES)


def _counted_by(name: str, rows: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(pc.value_counts(rows.column(name)).flatten(), schema=VALUES)


def summed(counts: pa.Table) -> dict[str, int]:
    """By value, the sums of `VALUES`."""
    sums = counts.group_by("value").aggregate([("n", "sum")])
    return dict(zip(*(sums.column(name).to_pylist() for name in ("value", "n_sum")), strict=True))


def tallied(batches: Iterable[pa.RecordBatch]) -> Counter[tuple[Any, ...]]:
    """How many rows there are of each combination of values."""
    numbers: Counter[tuple[Any, ...]] = Counter()
    for batch in batches:
        names = batch.schema.names
        counts = pa.Table.from_batches([batch]).group_by(names).aggregate([([], "count_all")])
        for row in counts.select([*names, "count_all"]).to_pylist():
            *values, number = row.values()
            numbers[*values] += number
    return numbers


def chosen(rows: Rows, names: Sequence[str]) -> Rows:
    """These columns of the rows."""
    schema = pa.schema([rows.schema.field(name) for name in names])
    return rows.through(partial(_select, list(names)), schema)


def _select(names: Sequence[str], rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.select(names)


def where(rows: Rows, name: str, value: str | int | bool) -> Rows:
    """The rows that have this value in a column."""
    return rows.through(partial(_where, name, value), rows.schema)


def _where(name: str, value: str | int | bool, rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.filter(pc.equal(rows.column(name), value))


def together(rows: Sequence[Rows]) -> Rows:
    """The rows of all, which have one schema."""
    return rows[0].and_all(rows[1:]) if len(rows) > 1 else rows[0]


def as_batch(table: pa.Table) -> pa.RecordBatch:
    """The table in one piece. Raises RowsTooLarge where a column has more than 2 GiB of texts or bytes.

    Arrow's offsets have 32 bits, so `combine_chunks` leaves such a column in several pieces.
    """
    batches = table.combine_chunks().to_batches()
    if len(batches) > 1:
        raise RowsTooLarge(
            f"{table.num_rows} rows have a column of more than 2 GiB, which one process cannot carry at once",
            "run shorter windows: fewer changes of one key, or of one moment, then meet in one place",
        )
    return batches[0] if batches else empty(table.schema)
