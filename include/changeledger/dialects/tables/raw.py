"""Rows of change tables as a raw table stores them: the values as read, and the position of each row.

Rows that share a position are numbered, so that each has its own `source_position`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from changeledger.config.feed import Feed
from changeledger.dialects.tables.interface import Hidden, TableKernel
from changeledger.dialects.tables.rows import OWN, kind_of, stored_names
from changeledger.kernels import json_rows
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
    # By change table: the stored names of the columns that were read, in their order.
    names: Mapping[str, Sequence[str]]

    @classmethod
    def of(cls, read: Mapping[str, pa.Schema], spark_types: Mapping[str, str]) -> RawTable:
        """Derives the columns from those that were read of each change table (`read`).

        `spark_types` has Spark's types of the columns that the raw table already has, by name.
        """
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
        first = [pa.field(name, kind) for name, _, kind in _OWN]
        return cls(pa.schema([*first, *fields.values()]), names)

    @property
    def columns(self) -> list[tuple[str, str]]:
        """Names and Spark types."""
        first = [(name, kind) for name, kind, _ in _OWN]
        return first + [(field.name, kind_of(field.type)) for field in list(self.schema)[len(_OWN) :]]


@dataclass(frozen=True)
class AsRaw:
    """Turns rows as read from one change table into rows of the raw table."""

    kernel: TableKernel
    feed: Feed
    instance: str
    window_id: str
    table: RawTable
    hidden: Hidden

    def __call__(self, read: pa.RecordBatch) -> pa.RecordBatch:
        size, schema = read.num_rows, self.table.schema
        values_by_name = {
            name.lower(): values
            for name, values in zip(self.table.names[self.instance], read.columns, strict=True)
        } | {
            "window_id": same(self.window_id, size),
            "source_position": self.kernel.record(read, self.instance, self.feed, self.hidden),
            "_instance": same(self.instance, size),
        }
        columns = [
            values.cast(field.type) if (values := values_by_name.get(field.name.lower())) is not None
            else pa.nulls(size, field.type)
            for field in schema
        ]  # fmt: skip
        return pa.RecordBatch.from_arrays(columns, schema=schema)


def all_numbered(rows: Rows) -> Rows:
    """Numbers the rows that share a position, over all rows of a source table in a window."""
    return bucketed({_ROWS: Part(rows, _PLACE)}, _numbered, {_ROWS: rows.schema})[_ROWS]


def _numbered(tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    raw = as_batch(tables[_ROWS])
    return {_ROWS: pa.Table.from_batches([numbered(raw) if are_crowded(raw) else raw])}


def are_crowded(raw: pa.RecordBatch) -> bool:
    """Returns whether several rows share a position."""
    _, counts = _places(raw)
    return bool((counts > 1).any())


def numbered(raw: pa.RecordBatch) -> pa.RecordBatch:
    """Numbers rows that share a position, in `source_position.offset`. Keeps the order of the batch.

    All rows of a window that share a position must be in the batch. They are numbered in the order of their
    contents; equal contents are numbered in the order of the batch. The first row of a position gets no
    number: a row that is alone at its position is identified by it.
    """
    place, counts = _places(raw)
    crowded = np.flatnonzero(counts[place] > 1)
    some = raw.take(pa.array(crowded))
    columns = {n: c for n, c in zip(some.schema.names, some.columns, strict=True) if n not in OWN}
    contents = json_rows.rows(columns, len(crowded)).to_pylist()
    number = np.zeros(raw.num_rows, np.int64)
    last, taken = -1, 0
    # Python compares strings by code point, which is also the order of their UTF-8 bytes.
    for at in sorted(range(len(crowded)), key=lambda at: (place[crowded[at]], contents[at])):
        row = crowded[at]
        taken = taken + 1 if place[row] == last else 0
        last = place[row]
        number[row] = taken
    source, partition, _, position = raw.column("source_position").flatten()
    offset = pa.array(number, mask=number == 0)
    record = pa.StructArray.from_arrays([source, partition, offset, position], fields=list(RECORD))
    return raw.set_column(raw.schema.get_field_index("source_position"), "source_position", record)


def _places(raw: pa.RecordBatch) -> tuple[np.ndarray, np.ndarray]:
    """Returns a number for each row's position, and the row count of each position."""
    source, _, _, position = raw.column("source_position").flatten()
    codes = [
        column.dictionary_encode().indices.to_numpy(zero_copy_only=False) for column in (source, position)
    ]
    _, place, counts = np.unique(
        codes[0].astype(np.int64) << 32 | codes[1].astype(np.int64), return_inverse=True, return_counts=True
    )
    return place, counts
