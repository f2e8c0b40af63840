"""Data files of the lake, read where their rows are needed: in Spark's Python workers, column by column.

Spark would take each row apart to hand it to Python. The driver plans which files may hold rows; a worker
reads them, or some row groups of them, as Arrow, a batch at a time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.expressions.visitors import bind, extract_field_ids, translate_column_names
from pyiceberg.io import load_file_io
from pyiceberg.io.pyarrow import (
    _get_column_projection_values,
    _read_all_delete_files,
    _to_requested_schema,
    expression_to_pyarrow,
    pyarrow_to_schema,
)
from pyiceberg.schema import Schema, prune_columns
from pyiceberg.table import FileScanTask, Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import StructType

from changeledger.kernels.rows import BatchKernel

# A batch for the kernels has at most this many rows, and about this many bytes.
_MOST_ROWS, _MOST_BYTES = 50_000, 64 << 20
# Row groups of larger files are read by several tasks.
_LARGE_FILE = 32 << 20


class FilePart(NamedTuple):
    """A file, or some of its row groups."""

    task: FileScanTask
    groups: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Scan:
    """The files of a snapshot that may hold rows of a condition.

    `schema`: the columns that are read, in their types; a struct may have some of its fields only.
    """

    metadata: TableMetadata
    projection: Schema
    where: BooleanExpression
    schema: pa.Schema
    parts: tuple[FilePart, ...]

    @classmethod
    def of(
        cls, table: Table, where: BooleanExpression, schema: pa.Schema, snapshot: int | None = None
    ) -> Scan:
        scan = table.scan(where, snapshot_id=snapshot)
        parts = [part for task in scan.plan_files() for part in _parts(task)]
        projection = scan.projection().select(*_selected(schema, scan.projection()))
        return cls(alone(table), projection, where, schema, tuple(parts))

    def all_rows(self, among: BatchKernel) -> list[pa.RecordBatch]:
        """The rows of all parts that pass through the kernel: by this process, some parts at once."""

        def passed(part: FilePart) -> list[pa.RecordBatch]:
            return [found for rows in self.rows(part) if (found := among(rows)).num_rows]

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return [rows for found in pool.map(passed, self.parts) for rows in found]

    def rows(self, part: FilePart) -> Iterator[pa.RecordBatch]:
        """Of one part."""
        io = load_file_io(self.metadata.properties, self.metadata.location)
        deletes = _read_all_delete_files(io, [part.task]).get(part.task.file.file_path, [])
        with io.new_input(part.task.file.file_path).open() as opened:
            file = _OpenFile(self, part, opened)
            for batch in file.batches(np.concatenate([c.to_numpy() for c in deletes]) if deletes else None):
                rows = _to_requested_schema(
                    self.projection, file.read, batch, projected_missing_fields=file.missing,
                    allow_timestamp_tz_mismatch=True,
                )  # fmt: skip
                yield from _typed(rows, self.schema)


class _OpenFile:
    """A Parquet file with its condition and its columns, by the ids of their fields."""

    def __init__(self, scan: Scan, part: FilePart, opened: Any) -> None:
        metadata, self._part = scan.metadata, part
        self._file = pq.ParquetFile(opened)
        physical = self._file.schema_arrow
        schema = pyarrow_to_schema(physical, metadata.name_mapping(), downcast_ns_timestamp_to_us=True)
        self.missing: dict[int, Any] = _get_column_projection_values(
            part.task.file, scan.projection, metadata.schema(), metadata.specs().get(part.task.file.spec_id),
            schema.field_ids,
        )  # fmt: skip
        bound = bind(metadata.schema(), scan.where, case_sensitive=True)
        self._filter, self._groups = None, part.groups
        if not isinstance(bound, AlwaysTrue):
            named = translate_column_names(bound, schema, projected_field_values=self.missing)
            self._filter = expression_to_pyarrow(bind(schema, named, case_sensitive=True), schema)
            self._groups = self._among(opened, self._filter)
        wanted = {i for i in scan.projection.field_ids if scan.projection.find_type(i).is_primitive}
        self.read = prune_columns(schema, wanted | extract_field_ids(bound), select_full_types=False)

    def _among(self, opened: Any, condition: pc.Expression) -> tuple[int, ...]:
        """The row groups that may have rows of the condition, as far as their statistics say."""
        whole = ds.ParquetFileFormat().make_fragment(opened)
        found = {g.id for one in whole.split_by_row_group(condition) for g in one.row_groups}
        return tuple(g for g in self._part.groups or range(self._file.num_row_groups) if g in found)

    def batches(self, deleted: np.ndarray[Any, Any] | None) -> Iterator[pa.RecordBatch]:
        """The rows of the row groups that meet the condition. `deleted`: positions in the file that went."""
        footer = self._file.metadata
        sizes = [footer.row_group(at).num_rows for at in range(footer.num_row_groups)]
        for group in range(len(sizes)) if self._groups is None else self._groups:
            packed = max(footer.row_group(group).total_byte_size, 1)
            at_once = max(1, min(_MOST_ROWS, _MOST_BYTES * sizes[group] // packed))
            first = sum(sizes[:group])
            for batch in self._file.iter_batches(at_once, [group], list(_paths(self.read.as_struct()))):
                yield from self._left(batch, first, deleted)
                first += batch.num_rows

    def _left(
        self, batch: pa.RecordBatch, first: int, deleted: np.ndarray[Any, Any] | None
    ) -> Iterator[pa.RecordBatch]:
        if deleted is not None:
            gone = np.isin(np.arange(first, first + batch.num_rows), deleted)
            batch = batch.filter(pa.array(~gone)) if gone.any() else batch
        rows = pa.Table.from_batches([batch])
        rows = rows if self._filter is None else rows.filter(self._filter)
        yield from rows.combine_chunks().to_batches() if rows.num_rows else ()


def _parts(task: FileScanTask) -> Iterator[FilePart]:
    groups = len(task.file.split_offsets or ())
    if groups < 2 or task.file.file_size_in_bytes <= _LARGE_FILE:
        yield FilePart(task)
    else:
        yield from (FilePart(task, (group,)) for group in range(groups))


def _paths(struct: StructType, prefix: str = "") -> Iterator[str]:
    """As Parquet names the columns; of a list or map, all that it has."""
    for field in struct.fields:
        if isinstance(field.field_type, StructType):
            yield from _paths(field.field_type, f"{prefix}{field.name}.")
        else:
            yield f"{prefix}{field.name}"


def _typed(rows: pa.RecordBatch, schema: pa.Schema) -> list[pa.RecordBatch]:
    # In one batch, or in several where Arrow cannot hold a column in one.
    table = pa.Table.from_batches([rows]).select(schema.names).cast(schema)
    batches: list[pa.RecordBatch] = table.combine_chunks().to_batches()
    return batches


def _selected(schema: pa.Schema, there: Schema) -> Iterator[str]:
    """As Iceberg names the columns; of a struct with some of its fields only, each of these."""
    for field in schema:
        whole = there.find_type(field.name)
        if isinstance(whole, StructType) and field.type.num_fields < len(whole.fields):
            yield from (f"{field.name}.{one.name}" for one in field.type)
        else:
            yield field.name


def alone(table: Table) -> TableMetadata:
    """What workers need to know of the table: neither its history, nor how the catalog is reached."""
    return table.metadata.model_copy(
        update={
            "snapshots": [],
            "snapshot_log": [],
            "metadata_log": [],
            "refs": {},
            "current_snapshot_id": None,
        }
    )
