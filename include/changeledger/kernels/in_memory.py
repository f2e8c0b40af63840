"""Rows in this process, without Spark: for the `decode` command and for samples of a table's records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from changeledger.kernels.rows import BatchKernel, BucketKernel, Part, Rows


@dataclass(frozen=True)
class InMemory:
    """The rows of a table."""

    table: pa.Table

    @classmethod
    def of(cls, batch: pa.RecordBatch) -> InMemory:
        return cls(pa.Table.from_batches([batch]))

    @property
    def schema(self) -> pa.Schema:
        return self.table.schema

    def through(self, kernel: BatchKernel, schema: pa.Schema) -> InMemory:
        # One piece, or several where Arrow cannot hold a column in one.
        pieces = self.table.combine_chunks().to_batches()
        return InMemory(pa.Table.from_batches([kernel(piece) for piece in pieces if piece.num_rows], schema))

    def collected(self, most: int | None = None) -> pa.Table:
        return self.table.slice(0, most)

    def collected_with(self, others: Sequence[Rows]) -> list[pa.Table]:
        return [rows.collected() for rows in (self, *others)]

    def bucketed(
        self, parts: Mapping[str, Part], kernel: BucketKernel, outputs: Mapping[str, pa.Schema]
    ) -> dict[str, Rows]:
        tables = kernel({name: part.rows.collected() for name, part in parts.items()})
        return {name: InMemory(tables[name].cast(schema)) for name, schema in outputs.items()}

    def and_all(self, others: Sequence[Rows]) -> InMemory:
        return InMemory(pa.concat_tables([self.table, *(rows.collected() for rows in others)]))
