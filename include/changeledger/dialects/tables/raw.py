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
from changeledger.kernels.arrow import RECORD, batch_of, by_name, with_column
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
    # By change table: the names in `schema` of the columns that were read, in their order.
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
            stored = stored_names(schema, kinds)
            for name, field in zip(stored, schema, strict=True):
                # Iceberg has no whole number narrower than int.
                kind = pa.int32() if field.type in _NARROW else field.type
                fields.setdefault(name.lower(), pa.field(name, kind))
                kinds[name.lower()] = kind_of(kind)
            names[instance] = [fields[name.lower()].name for name in stored]
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
        own = {
            "window_id": self.window_id,
            "source_position": self.kernel.record(read, self.instance, self.feed, self.hidden),
            "_instance": self.instance,
        }
        cells = dict(zip(self.table.names[self.instance], read.columns, strict=True))
        return batch_of(own | cells, self.table.schema)


def all_numbered(rows: Rows) -> Rows:
    """Numbers the rows that share a position, over all rows of a source table in a window."""
    return bucketed({_ROWS: Part(rows, _PLACE)}, _numbered, {_ROWS: rows.schema})[_ROWS]


def _numbered(tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    return {_ROWS: pa.Table.from_batches([numbered(as_batch(tables[_ROWS]))])}


def numbered(raw: pa.RecordBatch) -> pa.RecordBatch:
    """Numbers rows that share a position, in `source_position.offset`. Keeps the order of the batch.

    All rows of a window that share a position must be in the batch. They are numbered in the order of their
    contents; equal contents are numbered in the order of the batch. The first row of a position gets no
    number: a row that is alone at its position is identified by it.
    """
    source, partition, _, position = raw.column("source_position").flatten()
    high, low = (
        column.dictionary_encode().indices.to_numpy(zero_copy_only=False).astype(np.int64)
        for column in (source, position)
    )
    _, place, counts = np.unique(high << 32 | low, return_inverse=True, return_counts=True)
    crowded = np.flatnonzero(counts[place] > 1)
    if not len(crowded):
        return raw
    columns = {n: c for n, c in by_name(raw.take(pa.array(crowded))).items() if n not in OWN}
    contents = json_rows.rows(columns, len(crowded)).to_pylist()
    number = np.zeros(raw.num_rows, np.int64)
    last, taken = -1, 0
    # Python compares strings by code point, which is also the order of their UTF-8 bytes.
    for at in sorted(range(len(crowded)), key=lambda at: (place[crowded[at]], contents[at])):
        row = crowded[at]
        taken = taken + 1 if place[row] == last else 0
        last = place[row]
        number[row] = taken
    offset = pa.array(number, mask=number == 0)
    record = pa.StructArray.from_arrays([source, partition, offset, position], fields=list(RECORD))
    return with_column(raw, "source_position", record)
