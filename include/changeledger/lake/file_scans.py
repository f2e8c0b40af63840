"""Reads data files of the lake in Spark's Python workers, where their rows are needed, column by column.

Spark itself would take each row apart to hand it to Python. Instead, the driver plans which files may have
rows, and workers read them as Arrow, file by file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.expressions.visitors import bind, extract_field_ids
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.io.pyarrow import ArrowScan, expression_to_pyarrow
from pyiceberg.schema import Schema, prune_columns
from pyiceberg.table import DataScan, FileScanTask, Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import StructType

from changeledger.config.object_path import store_members
from changeledger.lake.shared_metadata import schema_in

# Bytes that an ordinary row has at most in a compressed file. Larger rows count as several: of rows of 50 KB,
# fewer fit into a worker or an Arrow array.
_USUAL_BYTES = 1 << 10
_DECIMAL = re.compile(r'"type":"decimal\(\d+, (\d+)\)"')


@dataclass(frozen=True)
class Scan:
    """The files of a snapshot that may have rows that meet a condition.

    `schema`: the columns to read, with their types; a struct may have only some of its fields.
    """

    metadata: TableMetadata
    io: FileIO
    projection: Schema
    where: BooleanExpression
    schema: pa.Schema
    parts: tuple[FileScanTask, ...]

    @classmethod
    def of(
        cls, table: Table, where: BooleanExpression, schema: pa.Schema, snapshot: int | None = None
    ) -> Scan:
        scan = table.scan(where, snapshot_id=snapshot)
        projection = scan.projection().select(*_selected(schema, scan.projection()))
        return cls(alone(table), store_of(table), projection, where, schema, tuple(scan.plan_files()))

    def __reduce__(self) -> tuple[Callable[..., Scan], tuple[object, ...]]:
        rest = self.where, self.schema, self.parts
        return _scan, (self.metadata, self.io, self.projection.model_dump_json(), *rest)

    @property
    def weights(self) -> list[int]:
        """Rows of each file; if they are large, the number of ordinary rows with as many bytes."""
        files = (task.file for task in self.parts)
        return [max(file.record_count, file.file_size_in_bytes // _USUAL_BYTES) for file in files]

    def without_parts(self) -> Scan:
        return replace(self, parts=())

    def rows(self, part: FileScanTask) -> Iterator[pa.RecordBatch]:
        """Reads the rows of one file."""
        for batch in self._reader.batches(part):
            # Gives one batch, or several if a column is too large for one Arrow array.
            table = pa.Table.from_batches([batch]).select(self.schema.names).cast(self.schema)
            yield from table.combine_chunks().to_batches()

    @cached_property
    def _reader(self) -> FileReader:
        # Shared by all files: creating it takes as long as reading a small file.
        return FileReader(self.metadata, self.io, self.projection, self.where)


class FileReader:
    """Reads the rows of data files that meet a condition, in the columns of `projection`."""

    def __init__(
        self, metadata: TableMetadata, io: FileIO, projection: Schema, where: BooleanExpression
    ) -> None:
        self._metadata, self._io, self._projection, self._where = metadata, io, projection, where
        self._arrow = ArrowScan(metadata, io, projection, where)

    @classmethod
    def of(cls, scan: DataScan, columns: Schema) -> FileReader:
        return cls(scan.table_metadata, scan.io, columns, scan.row_filter)

    def batches(self, part: FileScanTask) -> list[pa.RecordBatch]:
        """Reads one file."""
        try:
            return list(self._arrow.to_record_batches([part]))
        except pa.ArrowInvalid:
            # pyiceberg casts the condition's values to the file's types, and a decimal of fewer digits than
            # the table's does not have all of them.
            return self._of_all_rows(part)

    def _of_all_rows(self, part: FileScanTask) -> list[pa.RecordBatch]:
        """Reads all rows of the file, and applies the condition to the widest decimals."""
        schema = self._metadata.schema()
        asked = _widest(prune_columns(schema, extract_field_ids(bind(schema, self._where, True)), False))
        cells, rows = (
            ArrowScan(self._metadata, self._io, columns, AlwaysTrue()).to_table([part])
            for columns in (asked, self._projection)
        )
        number = max(cells.schema.names, key=len) + "#"
        numbered = cells.append_column(number, pa.array(range(len(cells)), pa.int64()))
        kept = numbered.filter(expression_to_pyarrow(bind(asked, self._where, True), asked))
        batches: list[pa.RecordBatch] = rows.take(kept.column(number)).to_batches()
        return batches


def _widest(schema: Schema) -> Schema:
    """Returns the schema with decimals of 38 digits."""
    return schema_in(_DECIMAL.sub(r'"type":"decimal(38, \1)"', schema.model_dump_json()))


def _scan(metadata: TableMetadata, io: FileIO, projection: str, *rest: Any) -> Scan:
    return Scan(metadata, io, schema_in(projection), *rest)


def _selected(schema: pa.Schema, table_schema: Schema) -> Iterator[str]:
    """Yields Iceberg's names of the columns; for a struct with only some of its fields, a name for each."""
    for field in schema:
        whole = table_schema.find_type(field.name)
        if isinstance(whole, StructType) and field.type.num_fields < len(whole.fields):
            yield from (f"{field.name}.{member.name}" for member in field.type)
        else:
            yield field.name


def alone(table: Table) -> TableMetadata:
    """Returns what workers need to know of the table, without its history and the access to the catalog.

    It stays the same from commit to commit, so a reused worker parses it once.
    """
    return table.metadata.model_copy(
        update={
            "snapshots": [],
            "snapshot_log": [],
            "metadata_log": [],
            "refs": {},
            "current_snapshot_id": None,
            "last_sequence_number": 0,
            "last_updated_ms": 0,
        }
    )


def store_of(table: Table) -> FileIO:
    """Returns the file access for workers.

    It has credentials of the store, including those lent by a REST catalog, but neither address nor secrets
    of the catalog.
    """
    return load_file_io(store_members(table.io.properties), table.location())
