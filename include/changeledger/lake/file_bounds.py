"""Writes data files with correct bounds in manifests, by which readers skip files.

pyiceberg writes wrong bounds, or fails, if texts are long. Such a column or file gets no bounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import write_file
from pyiceberg.manifest import DataFile
from pyiceberg.table import TableProperties, WriteTask
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import BinaryType, StringType

# In bytes: Arrow's writer gives no bounds of a longer value (apache/parquet-cpp#465).
_LONGEST: Final = 4096


def written(io: FileIO, metadata: TableMetadata, task: WriteTask) -> list[DataFile]:
    """Writes the rows of the task to files."""
    try:
        files = list(write_file(io, metadata, iter([task])))
    except UnicodeEncodeError:
        # pyiceberg truncates a text for its upper bound and increments the last character: after U+D7FF comes
        # half a surrogate pair, which cannot be written (apache/iceberg-python#3880).
        unbounded = {**metadata.properties, TableProperties.DEFAULT_WRITE_METRICS_MODE: "counts"}
        return list(write_file(io, metadata.model_copy(update={"properties": unbounded}), iter([task])))
    for number in _with_long_values(metadata, task):
        for file in files:
            file.lower_bounds.pop(number, None)
            file.upper_bounds.pop(number, None)
    return files


def _with_long_values(metadata: TableMetadata, task: WriteTask) -> Iterator[int]:
    """Yields the ids of columns with a value that is too long for a bound.

    A row group whose least or greatest value is that long has no bounds. pyiceberg then takes the bounds of
    the other row groups for the whole file, and readers who look for the value would skip the file. Trino had
    the same bug (trinodb/trino#19052).
    """
    for field in metadata.schema().fields:
        if isinstance(field.field_type, StringType | BinaryType):
            columns = (rows.column(field.name) for rows in task.record_batches)
            if any(_longest(cells) > _LONGEST for cells in columns):
                yield field.field_id


def _longest(cells: pa.Array) -> int:
    """Returns the bytes of the longest value; 0 if there is none."""
    return pc.max(pc.binary_length(cells)).as_py() or 0
