"""How workers reach the store of a table's files."""

from __future__ import annotations

from pyiceberg.io import FileIO, load_file_io
from pyiceberg.table import Table

# Members of a catalog that say how files are reached; the others say how the catalog is.
_OF_STORES = ("s3.", "client.", "gcs.", "adls.", "hdfs.", "hf.", "oss.", "py-io-impl")


def store_of(table: Table) -> FileIO:
    """The table's files for workers: with credentials of the store, also those that a REST catalog has handed
    out, and without address and secrets of the catalog."""
    members = {name: value for name, value in table.io.properties.items() if name.startswith(_OF_STORES)}
    return load_file_io(members, table.location())
