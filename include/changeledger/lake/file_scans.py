"""Data files of the lake, read where their rows are needed: in Spark's Python workers, column by column.

Spark would take each row apart to hand it to Python. The driver plans which files may hold rows; a worker
reads them as Arrow, file by file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyiceberg.expressions import BooleanExpression
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import StructType

from changeledger.config.object_path import store_members
from changeledger.lake.shared_metadata import schema_in


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
        """How many rows each file has."""
        return [task.file.record_count for task in self.parts]

    def without_parts(self) -> Scan:
        return replace(self, parts=())

    def rows(self, part: FileScanTask) -> Iterator[pa.RecordBatch]:
        """Of one file."""
        for batch in self._reader.to_record_batches([part]):
            # In one batch, or in several where Arrow cannot hold a column in one.
            table = pa.Table.from_batches([batch]).select(self.schema.names).cast(self.schema)
            yield from table.combine_chunks().to_batches()

    @cached_property
    def _reader(self) -> ArrowScan:
        # For all files: of small ones it takes as long to make as to read one.
        return ArrowScan(self.metadata, self.io, self.projection, self.where)


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
