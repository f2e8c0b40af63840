"""Rows of change tables as a raw table stores them: as they were read, and where each of them stands.

Those that stand at one place are numbered, so that each has its own `source_position`.
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
        first = [pa.field(name, kind) for name, _, kind in _OWN]
        return cls(pa.schema([*first, *fields.values()]), names)

    @property
    def columns(self) -> list[tuple[str, str]]:
        """With Spark's types."""
        first = [(name, kind) for name, kind, _ in _OWN]
        return first + [(field.name, kind_of(field.type)) for field in list(self.schema)[len(_OWN) :]]


@dataclass(frozen=True)
class AsRaw:
    """The kernel of one change table: rows as they were read in, rows of the raw table out."""

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
    """All rows that a window has of a source table, those that stand at one place numbered."""
    return bucketed({_ROWS: Part(rows, _PLACE)}, _numbered, {_ROWS: rows.schema})[_ROWS]


def _numbered(tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    raw = as_batch(tables[_ROWS])
    return {_ROWS: pa.Table.from_batches([numbered(raw) if are_crowded(raw) else raw])}


def are_crowded(raw: pa.RecordBatch) -> bool:
    """Do several of the rows stand at one place?"""
    _, counts = _places(raw)
    return bool((counts > 1).any())


def numbered(raw: pa.RecordBatch) -> pa.RecordBatch:
    """The rows, in the batch's order: those at one place numbered by contents in `source_position.offset`.

    All rows of a window that stand at one place must be in the batch. The first has no number: a row that
    stands alone is known by its place. Equal contents take the numbers in the order of the batch.
    """
    place, counts = _places(raw)
    crowded = np.flatnonzero(counts[place] > 1)
    some = raw.take(pa.array(crowded))
    columns = {n: c for n, c in zip(some.schema.names, some.columns, strict=True) if n not in OWN}
    contents = json_rows.rows(columns, len(crowded)).to_pylist()
    number = np.zeros(raw.num_rows, np.int64)
    last, taken = -1, 0
    # Python compares texts by code points, which is the order of their bytes in UTF-8.
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
    """A number for each row's place, and how many rows each place has."""
    source, _, _, position = raw.column("source_position").flatten()
    codes = [
        column.dictionary_encode().indices.to_numpy(zero_copy_only=False) for column in (source, position)
    ]
    _, place, counts = np.unique(
        codes[0].astype(np.int64) << 32 | codes[1].astype(np.int64), return_inverse=True, return_counts=True
    )
    return place, counts
