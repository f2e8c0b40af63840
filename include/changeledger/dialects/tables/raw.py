"""Rows of change tables as a raw table stores them: as they were read, and where each of them stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from changeledger.config.feed import Feed
from changeledger.dialects.tables.crowded import are_crowded
from changeledger.dialects.tables.crowded import numbered as numbered_batch
from changeledger.dialects.tables.interface import TableKernel
from changeledger.dialects.tables.rows import kind_of, stored_names
from changeledger.kernels.arrow import RECORD, same
from changeledger.kernels.hashed import by
from changeledger.kernels.rows import Part, Rows, as_batch, bucketed
from changeledger.model.change import RECORD_TYPE

_OWN: Final = (
    ("window_id", "string", pa.string()),
    ("source_position", RECORD_TYPE, RECORD),
    ("_instance", "string", pa.string()),
)
_NARROW: Final = (pa.int8(), pa.int16())
_ROWS: Final = "rows"
_PLACE: Final = by("source_position")


@dataclass(frozen=True)
class RawTable:
    """The columns of a raw table that the change tables of one source table fill."""

    schema: pa.Schema
    # By change table: where the columns that were read are stored.
    names: Mapping[str, Sequence[str]]

    @classmethod
    def of(cls, read: Mapping[str, pa.Schema], spark_types: Mapping[str, str]) -> RawTable:
        """`read`: the columns of each change table. `spark_types`: those of the raw table, by name."""
        kinds = {name.lower(): kind for name, kind in spark_types.items()}
        fields: dict[str, pa.Field] = {}
        names = {}
        for instance, schema in read.items():
            names[instance] = stored_names(schema, kinds)
            for stored, field in zip(names[instance], schema, strict=True):
                # Iceberg has no whole number narrower than int.
                kind = pa.int32() if field.type in _NARROW else field.type
                fields.setdefault(stored.lower(), pa.field(stored, kind))
                kinds[stored.lower()] = kind_of(kind)
        own = [pa.field(name, kind) for name, _, kind in _OWN]
        return cls(pa.schema([*own, *fields.values()]), names)

    @property
    def columns(self) -> list[tuple[str, str]]:
        """With Spark's types."""
        own = [(name, kind) for name, kind, _ in _OWN]
        return own + [(field.name, kind_of(field.type)) for field in list(self.schema)[len(_OWN) :]]


@dataclass(frozen=True)
class AsRaw:
    """The kernel of one change table: rows as they were read in, rows of the raw table out."""

    kernel: TableKernel
    feed: Feed
    instance: str
    window_id: str
    table: RawTable

    def __call__(self, read: pa.RecordBatch) -> pa.RecordBatch:
        size, schema = read.num_rows, self.table.schema
        values_by_name = {
            name.lower(): values
            for name, values in zip(self.table.names[self.instance], read.columns, strict=True)
        } | {
            "window_id": same(self.window_id, size),
            "source_position": self.kernel.record(read, self.instance, self.feed),
            "_instance": same(self.instance, size),
        }
        columns = [
            values.cast(field.type) if (values := values_by_name.get(field.name.lower())) is not None
            else pa.nulls(size, field.type)
            for field in schema
        ]  # fmt: skip
        return pa.RecordBatch.from_arrays(columns, schema=schema)


def numbered(rows: Rows) -> Rows:
    """All rows that a window has of a source table, those that stand at one place numbered (`crowded`)."""
    return bucketed({_ROWS: Part(rows, _PLACE)}, _numbered, {_ROWS: rows.schema})[_ROWS]


def _numbered(tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    raw = as_batch(tables[_ROWS])
    return {_ROWS: pa.Table.from_batches([numbered_batch(raw) if are_crowded(raw) else raw])}
