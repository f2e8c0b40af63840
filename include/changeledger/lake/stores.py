"""How workers reach the store of a table's files."""

from __future__ import annotations

from pyiceberg.io import FileIO, load_file_io
from pyiceberg.table import Table

from changeledger.config.object_path import store_members


def store_of(table: Table) -> FileIO:
    """The table's files for workers: with credentials of the store, also those that a REST catalog has handed
    out, and without address and secrets of the catalog."""
    return load_file_io(store_members(table.io.properties), table.location())
