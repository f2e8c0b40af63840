"""Data files whose bounds in manifests are true: readers pass over a file by them.

pyiceberg says wrong ones, or fails, where texts are long; such a column, or file, has none then.
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

# In bytes: Arrow's writer says no bounds of a longer value (apache/parquet-cpp#465).
_LONGEST: Final = 4096


def written(io: FileIO, metadata: TableMetadata, task: WriteTask) -> list[DataFile]:
    """The rows of the task in files."""
    try:
        files = list(write_file(io, metadata, iter([task])))
    except UnicodeEncodeError:
        # pyiceberg cuts a text for its bound and takes the next character for the last one: behind U+D7FF
        # that is half a surrogate pair, which no file can have (apache/iceberg-python#3880).
        unbounded = {**metadata.properties, TableProperties.DEFAULT_WRITE_METRICS_MODE: "counts"}
        return list(write_file(io, metadata.model_copy(update={"properties": unbounded}), iter([task])))
    for number in _with_long_values(metadata, task):
        for file in files:
            file.lower_bounds.pop(number, None)
            file.upper_bounds.pop(number, None)
    return files


def _with_long_values(metadata: TableMetadata, task: WriteTask) -> Iterator[int]:
    """The columns with a value that is too long for a bound.

    A row group whose first or last value it is has none, and pyiceberg takes those of the other row groups
    for the file's: whoever asks for the value would pass over it. So it was in Trino (trinodb/trino#19052).
    """
    for field in metadata.schema().fields:
        if isinstance(field.field_type, StringType | BinaryType):
            columns = (rows.column(field.name) for rows in task.record_batches)
            if any(_longest(cells) > _LONGEST for cells in columns):
                yield field.field_id


def _longest(cells: pa.Array) -> int:
    """Bytes of the longest value; 0 if there is none."""
    return pc.max(pc.binary_length(cells)).as_py() or 0
