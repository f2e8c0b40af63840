"""Iceberg's SQL catalog, for a process that asks for the same tables over and over.

A catalog's row names the file of the table's metadata. Such a file never changes: each commit writes another
one. So only files that are not known yet are read and parsed.
"""

from __future__ import annotations

from threading import Lock
from typing import Final, NamedTuple

from cachetools import LRUCache
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.io import FileIO
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import TableRequirement, TableUpdate
from pyiceberg.typedef import Identifier
from sqlalchemy import select

from changeledger.lake.shared_metadata import shared

# Of a window's tables, the newest and some before.
_MOST: Final = 1024


class _Known(NamedTuple):
    metadata: TableMetadata
    io: FileIO


class KnownFilesCatalog(SqlCatalog):
    """Reads each file of metadata once."""

    def __init__(self, name: str, **properties: str) -> None:
        super().__init__(name, **properties)
        self._files: LRUCache[str, _Known] = LRUCache(_MOST)
        self._lock = Lock()

    def load_table(self, identifier: str | Identifier) -> Table:
        location = self._location(identifier)
        with self._lock:
            known = None if location is None else self._files.get(location)
        if location is None or known is None:
            table = super().load_table(identifier)
            table.metadata = shared(table.metadata)
            self._keep(table.metadata_location, table.metadata, table.io)
            return table
        return Table(Catalog.identifier_to_tuple(identifier), known.metadata, location, known.io, self)

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        response = super().commit_table(table, requirements, updates)
        self._keep(response.metadata_location, response.metadata, table.io)
        return response

    def _location(self, identifier: str | Identifier) -> str | None:
        """Where the catalog's row says that the table's metadata is; None if it has no such table."""
        namespace = Catalog.namespace_to_string(Catalog.namespace_from(identifier))
        query = select(IcebergTables.metadata_location).where(
            IcebergTables.catalog_name == self.name,
            IcebergTables.table_namespace == namespace,
            IcebergTables.table_name == Catalog.table_name_from(identifier),
        )
        with self.engine.connect() as connection:
            location: str | None = connection.scalar(query)
        return location

    def _keep(self, location: str, metadata: TableMetadata, io: FileIO) -> None:
        with self._lock:
            self._files[location] = _Known(metadata, io)
