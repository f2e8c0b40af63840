"""The lake's catalog as a Python process reads it: the same tables that Spark writes, without Spark.

Spark and pyiceberg share the catalog's database. A commit of either changes a table's entry only where it is
what the commit was built on, so neither writes over the other.
"""

from __future__ import annotations

import time
import warnings
from contextlib import suppress
from functools import cache, lru_cache
from typing import Final

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.table import Table
from sqlalchemy.exc import IntegrityError, OperationalError, ProgrammingError

from changeledger.config.settings import Settings
from changeledger.model import table_names
from changeledger.spark.lake_catalog import sql_url

# As Spark's configuration calls it; the catalog's database keeps it with every table.
NAME = table_names.CATALOG
# It writes in place of rows that may not be there, and writes their small files again.
for _said in ("Delete operation did not match any records", "Merge on read is not yet supported"):
    warnings.filterwarnings("ignore", _said, UserWarning)
# Seconds that a table with a snapshot is kept for the next reader.
_KEPT: Final = 60
# For another process that writes an SQLite file, and for a server's answer.
_PATIENCE = {"sqlite": ("timeout", "30"), "postgresql": ("connect_timeout", "5")}


def load(table: str) -> Table:
    """The table as it is now; its name as Spark has it, `lake.<namespace>.<name>`.

    Raises pyiceberg's NoSuchTableError.
    """
    return _catalog().load_table(_own(table))


def with_snapshot(table: str, snapshot: int) -> Table:
    """The table as it was at some moment since the snapshot was written, to read that snapshot.

    A snapshot is always the same: where a stage reads one for several purposes, its table is loaded once. It
    is kept for moments, since a catalog may have lent the credentials for its files.
    """
    return _with_snapshot(tuple(Settings().catalog.items()), table, snapshot, int(time.monotonic() // _KEPT))


@lru_cache(maxsize=1024)
def _with_snapshot(members: tuple[tuple[str, str], ...], table: str, snapshot: int, _: int) -> Table:
    loaded = _opened(members).load_table(_own(table))
    if loaded.snapshot_by_id(snapshot) is None:
        raise ValueError(f"{table} has no snapshot {snapshot}")
    return loaded


def found(table: str) -> Table | None:
    """The table, None if it is not there."""
    try:
        return load(table)
    except NoSuchTableError:
        return None


def exists(table: str) -> bool:
    return _catalog().table_exists(_own(table))


def create_namespace(namespace: str) -> None:
    """Where it is not there yet; another process may create it at the same moment."""
    with suppress(IntegrityError):
        _catalog().create_namespace_if_not_exists(namespace)


def rename(table: str, to: str) -> None:
    """The table's files stay where they are."""
    _catalog().rename_table(_own(table), _own(to))


def namespaces() -> list[str]:
    return sorted(".".join(namespace) for namespace in _catalog().list_namespaces())


def tables(namespace: str) -> list[str]:
    """Of a namespace that may not be there, by name."""
    try:
        return sorted(".".join((NAME, *identifier)) for identifier in _catalog().list_tables(namespace))
    except NoSuchNamespaceError:
        return []


def _own(table: str) -> tuple[str, ...]:
    return tuple(table.split(".")[1:])


def _catalog() -> Catalog:
    return _opened(tuple(Settings().catalog.items()))


@cache
def _opened(members: tuple[tuple[str, str], ...]) -> Catalog:
    properties = dict(members)
    if properties["type"] != "sql":
        return load_catalog(NAME, **properties)
    properties |= {"uri": _patient(properties["uri"]), "pool_pre_ping": "true", "schema_version": "v1"}
    try:
        opened = load_catalog(NAME, **properties)
    except (OperationalError, ProgrammingError):
        # Its first use makes its tables; two at once disturb each other.
        opened = load_catalog(NAME, **properties)
    if isinstance(opened, SqlCatalog) and opened.engine.dialect.name == "sqlite":
        with opened.engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA journal_mode=WAL")
    return opened


def _patient(uri: str) -> str:
    """The URL, with how long its database is waited for."""
    url = sql_url(uri)
    name, seconds = _PATIENCE[url.get_backend_name()]
    return url.set(query={name: seconds, **url.query}).render_as_string(hide_password=False)
