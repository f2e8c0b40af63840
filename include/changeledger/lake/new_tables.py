"""Tables that are new in the lake: by pyiceberg, since Spark takes five times as long to plan one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
from types import MappingProxyType
from typing import Final

import pyarrow as pa
from pyiceberg.io.pyarrow import PYARROW_PARQUET_FIELD_ID_KEY, pyarrow_to_schema
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import parse_transform

from changeledger.lake import catalog

PROPERTIES: Final = {
    "format-version": "2",
    # As tables have it that Spark makes.
    "write.parquet.compression-codec": "zstd",
    # Files of a ledger have the rows of a key together (`file_writes`): who asks for one reads a small part.
    "write.parquet.row-group-limit": "20000",
    # Most columns of 20,000 rows have as many values. A dictionary of these makes files a fifth larger, and
    # takes a quarter of the time to write them. A writer looks at its size after so many rows.
    "write.parquet.dict-size-bytes": "8192",
    "write.parquet.page-row-limit": "2000",
    # A window touches few rows of many files: write what changed beside them, do not rewrite them.
    "write.merge.mode": "merge-on-read",
    "write.update.mode": "merge-on-read",
    "write.delete.mode": "merge-on-read",
    # Appends are written where they are computed; an unpartitioned table gains nothing from a shuffle.
    "write.distribution-mode": "none",
    "write.spark.fanout.enabled": "true",
    "write.metadata.delete-after-commit.enabled": "true",
}
UNPARTITIONED: Final[Mapping[str, str]] = MappingProxyType({})


def create(table: str, columns: pa.Schema, partitions: Mapping[str, str] = UNPARTITIONED) -> None:
    """Create the table where it is not there yet. `partitions`: by column a transform of Iceberg's."""
    ids = count(1)
    schema = pyarrow_to_schema(pa.schema([_numbered(field, ids) for field in columns]))
    catalog.create(table, schema, PartitionSpec(*_fields(schema, partitions)), PROPERTIES)


def _numbered(field: pa.Field, ids: Iterator[int]) -> pa.Field:
    """The field with a number, as Iceberg's fields have, and those that it consists of."""
    number, kind = next(ids), field.type
    if pa.types.is_struct(kind):
        kind = pa.struct([_numbered(inner, ids) for inner in kind])
    elif pa.types.is_map(kind):
        kind = pa.map_(_numbered(kind.key_field, ids), _numbered(kind.item_field, ids))
    elif pa.types.is_list(kind):
        kind = pa.list_(_numbered(kind.value_field, ids))
    return field.with_type(kind).with_metadata({PYARROW_PARQUET_FIELD_ID_KEY: str(number)})


def _fields(schema: Schema, partitions: Mapping[str, str]) -> Iterator[PartitionField]:
    """Named as Spark names them."""
    for number, (column, transform) in enumerate(partitions.items(), start=PARTITION_FIELD_ID_START):
        name = column if transform == "identity" else f"{column}_{transform.partition('[')[0]}"
        source = schema.find_field(column).field_id
        yield PartitionField(source, number, parse_transform(transform), name)
