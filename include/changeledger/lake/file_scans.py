"""Data files of the lake, read where their rows are needed: in Spark's Python workers, column by column.

Spark would take each row apart to hand it to Python. The driver plans which files may hold rows; a worker
reads them as Arrow, file by file.
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

# No usual row has more bytes in a file, which is packed. Of rows of 50 KB fewer fit into a worker, or one
# array of Arrow's.
_USUAL_BYTES = 1 << 10
_DECIMAL = re.compile(r'"type":"decimal\(\d+, (\d+)\)"')


@dataclass(frozen=True)
class Scan:
    """The files of a snapshot that may hold rows of a condition.

    `schema`: the columns that are read, in their types; a struct may have some of its fields only.
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
        """How many rows each file has; where they are large, how many usual ones have as many bytes."""
        files = (task.file for task in self.parts)
        return [max(file.record_count, file.file_size_in_bytes // _USUAL_BYTES) for file in files]

    def without_parts(self) -> Scan:
        return replace(self, parts=())

    def rows(self, part: FileScanTask) -> Iterator[pa.RecordBatch]:
        """Of one file."""
        for batch in self._reader.batches(part):
            # In one batch, or in several where Arrow cannot hold a column in one.
            table = pa.Table.from_batches([batch]).select(self.schema.names).cast(self.schema)
            yield from table.combine_chunks().to_batches()

    @cached_property
    def _reader(self) -> FileReader:
        # For all files: of small ones it takes as long to make as to read one.
        return FileReader(self.metadata, self.io, self.projection, self.where)


class FileReader:
    """Rows of data files that fulfil a condition, in the columns of `projection`."""

    def __init__(
        self, metadata: TableMetadata, io: FileIO, projection: Schema, where: BooleanExpression
    ) -> None:
        self._metadata, self._io, self._projection, self._where = metadata, io, projection, where
        self._arrow = ArrowScan(metadata, io, projection, where)

    @classmethod
    def of(cls, scan: DataScan, columns: Schema) -> FileReader:
        return cls(scan.table_metadata, scan.io, columns, scan.row_filter)

    def batches(self, part: FileScanTask) -> list[pa.RecordBatch]:
        """Of one file."""
        try:
            return list(self._arrow.to_record_batches([part]))
        except pa.ArrowInvalid:
            # pyiceberg takes what is asked for as the file's own types have it: a decimal that has become
            # wider since the file was written, or is about to, does not have all numbers.
            return self._of_all_rows(part)

    def _of_all_rows(self, part: FileScanTask) -> list[pa.RecordBatch]:
        """The condition is asked of types that have all numbers, when all rows of the file are read."""
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
    """The columns with decimals of as many digits as there can be."""
    return schema_in(_DECIMAL.sub(r'"type":"decimal(38, \1)"', schema.model_dump_json()))


def _scan(metadata: TableMetadata, io: FileIO, projection: str, *rest: Any) -> Scan:
    return Scan(metadata, io, schema_in(projection), *rest)


def _selected(schema: pa.Schema, table_schema: Schema) -> Iterator[str]:
    """As Iceberg names the columns; of a struct with some of its fields only, each of these."""
    for field in schema:
        whole = table_schema.find_type(field.name)
        if isinstance(whole, StructType) and field.type.num_fields < len(whole.fields):
            yield from (f"{field.name}.{member.name}" for member in field.type)
        else:
            yield field.name


def alone(table: Table) -> TableMetadata:
    """What workers need to know of the table: neither its history, nor how the catalog is reached.

    It stays the same from commit to commit, so a worker that stays parses it once.
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
    """How workers reach the table's files: with credentials of the store, also those that a REST catalog has
    handed out, and without address and secrets of the catalog."""
    return load_file_io(store_members(table.io.properties), table.location())
