"""Rows on their way through kernels, wherever they are: here as a table, or spread over Spark's partitions.

A stage says once what becomes of its rows; how many they are decides who carries them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, TypeVar

import pyarrow as pa

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
        """The rows here; not more than `most`, whichever."""
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
    """What the kernel makes of each bucket of all parts; rows of one key are in one bucket, of every part.

    Where rows of a part are spread, all are.
    """
    carrier = min((part.rows for part in parts.values()), key=lambda rows: isinstance(rows, Here))
    return carrier.bucketed(parts, kernel, outputs)


_COUNT: Final = pa.schema([("n", pa.int64())])


def count(rows: Rows) -> int:
    """How many rows there are; of spread ones only numbers travel.

    To ask for one of them costs more: a worker that is not read to its end is ended, and another one begins.
    """
    numbers: list[int] = rows.through(_counted, _COUNT).collected().column("n").to_pylist()
    return sum(numbers)


def _counted(rows: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"n": [len(rows)]}, schema=_COUNT)


def together(rows: Sequence[Rows]) -> Rows:
    """The rows of all, which have one schema."""
    return rows[0].and_all(rows[1:]) if len(rows) > 1 else rows[0]


@dataclass(frozen=True)
class Here:
    """Rows of this process."""

    table: pa.Table

    @classmethod
    def of(cls, batch: pa.RecordBatch) -> Here:
        return cls(pa.Table.from_batches([batch]))

    @property
    def schema(self) -> pa.Schema:
        return self.table.schema

    @property
    def batch(self) -> pa.RecordBatch:
        """The rows in one piece."""
        return as_batch(self.table)

    def through(self, kernel: BatchKernel, schema: pa.Schema) -> Here:
        # One piece, or several where Arrow cannot hold a column in one.
        pieces = self.table.combine_chunks().to_batches()
        return Here(pa.Table.from_batches([kernel(piece) for piece in pieces if piece.num_rows], schema))

    def collected(self, most: int | None = None) -> pa.Table:
        return self.table if most is None else self.table.slice(0, most)

    def bucketed(
        self, parts: Mapping[str, Part], kernel: BucketKernel, outputs: Mapping[str, pa.Schema]
    ) -> dict[str, Rows]:
        made = kernel({name: part.rows.collected() for name, part in parts.items()})
        return {name: Here(made[name].cast(schema)) for name, schema in outputs.items()}

    def and_all(self, others: Sequence[Rows]) -> Rows:
        spread = [one for one in others if not isinstance(one, Here)]
        if spread:
            here = [self, *(one for one in others if isinstance(one, Here))]
            return spread[0].and_all([*spread[1:], *here])
        return Here(pa.concat_tables([self.table, *(one.collected() for one in others)]))


def as_batch(table: pa.Table) -> pa.RecordBatch:
    """The table in one piece. Raises RowsTooLarge where a column has more than 2 GiB of texts or bytes.

    Arrow's offsets have 32 bits, so `combine_chunks` leaves such a column in several pieces.
    """
    batches = table.combine_chunks().to_batches()
    if len(batches) > 1:
        raise RowsTooLarge(
            f"{table.num_rows} rows have a column of more than 2 GiB, which one process cannot carry at once",
            "set CHANGELEDGER_ROWS_HERE to fewer rows, so that Spark's workers carry them in parts, or run "
            "shorter windows",
        )
    return batches[0] if batches else empty(table.schema)
