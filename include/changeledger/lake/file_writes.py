"""Writes new data files of the lake in Spark's Python workers, where their rows are, column by column.

Spark itself would take each row apart to write it. Instead, workers write Arrow to files, and the driver
commits the files of all workers at once. Files of failed tasks, or files that are never committed, are in no
snapshot: `maintain` removes them.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionFieldValue, PartitionKey
from pyiceberg.schema import Schema, sanitize_column_names
from pyiceberg.table import Table, WriteTask
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import BucketTransform, IdentityTransform, Transform
from pyiceberg.typedef import Record

from changeledger.kernels.arrow import by_name, table_of
from changeledger.kernels.rows import BucketKernel, as_batch
from changeledger.lake import file_bounds
from changeledger.lake.file_scans import alone, store_of
from changeledger.model.errors import ConfigError, ContractError
from changeledger.spark.sinks import Gathered, Intake, packed
from changeledger.spark.tasks import BUCKET

# What manifests say of written files. Answers of workers are never unpickled: a pickle can run any code, and
# the job knows the source's secret.
_COUNTS: Final = pa.map_(pa.int32(), pa.int64())
_BOUNDS: Final = pa.map_(pa.int32(), pa.binary())
FILES: Final = pa.schema(
    [
        ("file_path", pa.string()),
        # Partition values as a JSON array of strings and numbers.
        ("partition", pa.string()),
        ("record_count", pa.int64()),
        ("file_size_in_bytes", pa.int64()),
        ("column_sizes", _COUNTS),
        ("value_counts", _COUNTS),
        ("null_value_counts", _COUNTS),
        ("nan_value_counts", _COUNTS),
        ("lower_bounds", _BOUNDS),
        ("upper_bounds", _BOUNDS),
        ("split_offsets", pa.list_(pa.int64())),
    ]
)
NO_FILES: Final = FILES.empty_table()
# Partitions by whether a column is NULL: all values share the single bucket, and NULL is in none.
OPEN_OR_CLOSED: Final[Transform[Any, int]] = BucketTransform(1)
# Attempts at a commit that conflicts with others.
_TRIES = 5
_NUMBER_IS_TAKEN = "Cannot add snapshot with sequence number"
# Approximate rows per file; fewer if they are large, since they are in memory while they are written.
_ROWS_OF_FILE = 250_000


@dataclass(frozen=True)
class Writing:
    """Writes rows to new files of a table. As a sink of workers, it answers `FILES` to be committed."""

    metadata: TableMetadata
    io: FileIO

    @classmethod
    def into(cls, table: Table) -> Writing:
        require_distinct_names(table.schema())
        return cls(alone(table), store_of(table))

    def __call__(self, asker: int) -> Intake:
        return _BeingWritten(self, asker)

    def in_files(self, rows: pa.Table) -> list[DataFile]:
        """Writes rows that may be many or large, to several files if needed."""
        gathered = Gathered(_ROWS_OF_FILE)
        pieces = [piece for batch in rows.to_batches(BUCKET) for piece in gathered.add(batch)]
        return [file for piece in (*pieces, *gathered.rest()) for file in self.files(piece)]

    def files(self, rows: pa.Table) -> list[DataFile]:
        """Writes the rows to files, one for each partition."""
        # Columns that the contract no longer has are NULL.
        columns = schema_to_pyarrow(self.metadata.schema(), include_field_ids=False)
        return [
            file
            for key, rows_of_key in self._partitions(by_key(table_of(by_name(rows), columns)))
            for file in file_bounds.written(self.io, self.metadata, self._task(key, rows_of_key))
        ]

    def _task(self, key: PartitionKey | None, rows: pa.Table) -> WriteTask:
        batches = rows.combine_chunks().to_batches()
        return WriteTask(uuid.uuid4(), 0, self.metadata.schema(), batches, partition_key=key)

    def _partitions(self, rows: pa.Table) -> Iterator[tuple[PartitionKey | None, pa.Table]]:
        fields = self.metadata.spec().fields
        if not fields:
            yield None, rows
            return
        names = [str(field.field_id) for field in fields]
        values = pa.table([*map(partial(self._values, rows), fields), np.arange(len(rows))], [*names, "row"])
        grouped = values.group_by(names, use_threads=False).aggregate([("row", "list")])
        for at, partition in enumerate(grouped.select(names).to_pylist()):
            places = grouped.column("row_list")[at].values
            yield self._key(partition.values()), rows if len(places) == len(rows) else rows.take(places)

    def _key(self, values: Iterable[Any]) -> PartitionKey:
        spec = self.metadata.spec()
        cells = [PartitionFieldValue(field, value) for field, value in zip(spec.fields, values, strict=True)]
        return PartitionKey(cells, spec, self.metadata.schema())

    def _values(self, rows: pa.Table, field: PartitionField) -> pa.ChunkedArray:
        cells = rows.column(self.metadata.schema().find_column_name(field.source_id))
        if field.transform == OPEN_OR_CLOSED:
            return pc.if_else(cells.is_valid(), pa.scalar(0), pa.scalar(None, pa.int64()))
        if not isinstance(field.transform, IdentityTransform):
            raise ConfigError(
                f"the files in {self.metadata.location} are partitioned by {field}, which changeledger never "
                "does: its rows would go into wrong partitions",
                "undo it (ALTER TABLE ... REPLACE PARTITION FIELD); only changeledger may change its tables",
            )
        return cells


class _BeingWritten:
    is_full = False

    def __init__(self, writing: Writing, asker: int) -> None:
        self._writing, self._asker = writing, asker
        self._gathered, self._files = Gathered(_ROWS_OF_FILE), list[DataFile]()
        self._names = {field.name for field in writing.metadata.schema().fields}

    def take(self, rows: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
        # Columns that the table does not have would take up memory until a file is full.
        self._write(self._gathered.add(rows.select([n for n in rows.schema.names if n in self._names])))
        return ()

    def rest(self) -> Iterable[pa.RecordBatch]:
        self._write(self._gathered.rest())
        return _answered(self._asker, self._files)

    def _write(self, tables: Iterable[pa.Table]) -> None:
        self._files += [file for rows in tables for file in self._writing.files(rows)]


class Rewriting:
    """Writes the remaining rows of a file to new files, answered as `FILES`. Writes nothing if all remain.

    `rows`: how many rows the file has.
    """

    is_full = False

    def __init__(self, writing: Writing, rows: int, asker: int) -> None:
        self._writing, self._rows, self._asker = writing, rows, asker
        self._stays = list[pa.RecordBatch]()

    def take(self, rows: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
        self._stays.append(rows)
        return ()

    def rest(self) -> Iterable[pa.RecordBatch]:
        if not self._stays or sum(rows.num_rows for rows in self._stays) == self._rows:
            return ()
        return _answered(self._asker, self._writing.files(pa.Table.from_batches(self._stays)))


@dataclass(frozen=True)
class Written:
    """Wraps a bucket kernel: its outputs named in `into` are written in its task and come out as `FILES`.

    Otherwise the rows would go to Spark, be kept there, and come back to be written. A task that runs twice
    writes twice: commit only the files of a single answer of the workers.
    """

    kernel: BucketKernel
    into: Mapping[str, Writing]

    def __call__(self, tables: Mapping[str, pa.Table]) -> Mapping[str, pa.Table]:
        rows = self.kernel(tables)
        files = {name: files_as_rows(writing.in_files(rows[name])) for name, writing in self.into.items()}
        return {**rows, **files}

    def outputs(self, of_kernel: Mapping[str, pa.Schema]) -> dict[str, pa.Schema]:
        """Returns the output schemas. `of_kernel`: the output schemas of the wrapped kernel."""
        return {**of_kernel, **dict.fromkeys(self.into, FILES)}


def _answered(asker: int, files: Sequence[DataFile]) -> list[pa.RecordBatch]:
    return [packed(asker, "", [as_batch(files_as_rows(files))])] if files else []


def require_distinct_names(schema: Schema) -> None:
    """Raises ContractError if two columns have the same name in data files.

    Data files, also those of Spark, have names that Avro allows: a backslash becomes `_x5C`.
    """
    try:
        sanitize_column_names(schema)
    except ValueError as error:
        raise ContractError(
            f"two columns have the same name in data files: {error}",
            "leave one of them out of the capture",
        ) from error


def files_as_rows(files: Sequence[DataFile]) -> pa.Table:
    """Returns `FILES` of new files."""
    rows = [{name: getattr(file, name) for name in FILES.names} for file in files]
    for row in rows:
        partition = row["partition"]
        row["partition"] = json.dumps([partition[at] for at in range(len(partition))])
    return pa.Table.from_pylist(rows, FILES)


def files_in(rows: pa.Table) -> list[DataFile]:
    """Returns the data files that `FILES` describes."""
    same: dict[str, Any] = {
        "content": DataFileContent.DATA, "file_format": FileFormat.PARQUET, "sort_order_id": None,
        "equality_ids": None, "key_metadata": None,
    }  # fmt: skip
    return [
        DataFile.from_args(**same, **{**row, "partition": Record(*json.loads(row["partition"]))})
        for row in rows.to_pylist(maps_as_pydicts="strict")
    ]


def commit(
    table: Table, branch: str, new: Sequence[DataFile], old: Collection[DataFile] = (), *, alone: bool = False
) -> None:
    """Appends the new files to the branch and removes the `old` ones.

    Retries if another process commits at the same moment. With `alone` or `old` files, it instead raises
    pyiceberg's CommitFailedException or ValidationException if the other process has added rows to this
    branch or removed these files. Otherwise the commit is a fast append, which is not validated.
    """
    head = table.metadata.refs.get(branch)
    for attempt in range(_TRIES):
        try:
            _commit(table, branch, new, old, is_validated=alone or bool(old))
            return
        except ValueError as error:
            # pyiceberg checks only whether this branch has moved, but numbers snapshots across branches. If
            # the number is taken, it does not retry (https://github.com/apache/iceberg/issues/15001).
            if _NUMBER_IS_TAKEN not in str(error) or attempt == _TRIES - 1:
                raise
            table.refresh()
            if table.metadata.refs.get(branch) != head:
                raise CommitFailedException(f"{branch} has moved meanwhile") from error


def _commit(
    table: Table, branch: str, new: Iterable[DataFile], old: Iterable[DataFile], *, is_validated: bool
) -> None:
    with table.transaction() as transaction:
        snapshot = transaction.update_snapshot(branch=branch)
        with snapshot.overwrite() if is_validated else snapshot.fast_append() as change:
            for file in old:
                change.delete_data_file(file)
            for file in new:
                change.append_data_file(file)


def by_key(rows: pa.Table) -> pa.Table:
    """Sorts ledger rows by key; returns other rows unchanged.

    A reader of one key skips the row groups of other keys by their bounds (ADR 0039).
    """
    if "key" not in rows.schema.names or not pa.types.is_struct(rows.schema.field("key").type):
        return rows
    whole = rows.combine_chunks()
    keys = whole.column("key").combine_chunks().flatten()
    names = [str(at) for at in range(len(keys))]
    at = pc.sort_indices(pa.table(keys, names), [(name, "ascending") for name in names])
    return whole.take(at)
