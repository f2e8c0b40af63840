"""Iceberg's SQL catalog, for a process that loads the same tables over and over.

A row of the catalog names the table's metadata file. Such a file never changes, since each commit writes a
new one, so each file is read and parsed only once.
"""

from __future__ import annotations

from threading import Lock
from typing import NamedTuple

from cachetools import LRUCache
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.io import FileIO
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import TableRequirement, TableUpdate
from pyiceberg.typedef import Identifier
from sqlalchemy import select

from changeledger.lake.known_manifests import MOST_TABLES
from changeledger.lake.shared_metadata import shared


class _Known(NamedTuple):
    location: str
    metadata: TableMetadata
    io: FileIO


class KnownFilesCatalog(SqlCatalog):
    """A SQL catalog that reads each metadata file once."""

    def __init__(self, name: str, **properties: str) -> None:
        super().__init__(name, **properties)
        self._known: LRUCache[Identifier, _Known] = LRUCache(MOST_TABLES)
        self._lock = Lock()

    def load_table(self, identifier: str | Identifier) -> Table:
        name = Catalog.identifier_to_tuple(identifier)
        location = self._location(name)
        with self._lock:
            known = self._known.get(name)
        if known is None or known.location != location:
            table = super().load_table(name)
            table.metadata = shared(table.metadata)
            self._keep(name, _Known(table.metadata_location, table.metadata, table.io))
            return table
        return Table(name, known.metadata, known.location, known.io, self)

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        response = super().commit_table(table, requirements, updates)
        self._keep(table.name(), _Known(response.metadata_location, response.metadata, table.io))
        return response

    def _location(self, identifier: Identifier) -> str | None:
        """Returns the location of the table's metadata file; None if the catalog has no such table."""
        namespace = Catalog.namespace_to_string(Catalog.namespace_from(identifier))
        query = select(IcebergTables.metadata_location).where(
            IcebergTables.catalog_name == self.name,
            IcebergTables.table_namespace == namespace,
            IcebergTables.table_name == Catalog.table_name_from(identifier),
        )
        with self.engine.connect() as connection:
            location: str | None = connection.scalar(query)
        return location

    def _keep(self, name: Identifier, known: _Known) -> None:
        with self._lock:
            self._known[name] = known
