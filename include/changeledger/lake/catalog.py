"""The lake's catalog for Python processes: the same tables that Spark writes, without Spark.

Spark and pyiceberg share the catalog's database. A commit of either changes a table's entry only if the entry
is the one that the commit was built on, so neither overwrites the other.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path
from typing import Final

from pyiceberg.catalog import PY_CATALOG_IMPL, TYPE, Catalog, load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchNamespaceError, NoSuchTableError
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from sqlalchemy.exc import IntegrityError, OperationalError, ProgrammingError

from changeledger.config.settings import Settings
from changeledger.lake.known_manifests import MOST_TABLES
from changeledger.lake.parallel import parallel_map
from changeledger.lake.shared_metadata import shared
from changeledger.lake.sql_catalog import KnownFilesCatalog
from changeledger.model import table_names
from changeledger.model.errors import ConfigError
from changeledger.spark.lake_catalog import sql_url

# The catalog's name in Spark's configuration; the catalog's database stores it with every table.
NAME = table_names.CATALOG
# pyiceberg warns if an overwrite matches no rows, and if it rewrites files. Both are expected here.
for _said in ("Delete operation did not match any records", "Merge on read is not yet supported"):
    warnings.filterwarnings("ignore", _said, UserWarning)
# Seconds for which `with_snapshot` caches a table.
_KEPT: Final = 60
# Attempts at a commit that conflicts with others.
_TRIES: Final = 5
# Seconds to wait for another process that writes the SQLite file, and for a server to answer.
_PATIENCE = {"sqlite": ("timeout", "30"), "postgresql": ("connect_timeout", "5")}


def load(table: str) -> Table:
    """Loads the present state of a table. `table`: its name in Spark, `lake.<namespace>.<name>`.

    Raises pyiceberg's NoSuchTableError.
    """
    return _loaded(_catalog(), table)


def with_snapshot(table: str, snapshot: int) -> Table:
    """Loads a table in which `snapshot` can be read. Raises ValueError if it has no such snapshot.

    The table may be up to a minute old: a snapshot never changes, so a stage that reads one several times
    loads its table once. It is not cached for longer, since credentials lent by a catalog expire.
    """
    return _with_snapshot(_members(), table, snapshot, int(time.monotonic() // _KEPT))


@lru_cache(maxsize=MOST_TABLES)
def _with_snapshot(members: tuple[tuple[str, str], ...], table: str, snapshot: int, _: int) -> Table:
    loaded = _loaded(_opened(members), table)
    if loaded.snapshot_by_id(snapshot) is None:
        raise ValueError(f"{table} has no snapshot {snapshot}")
    return loaded


def find(table: str) -> Table | None:
    """Loads a table, or returns None if it does not exist."""
    try:
        return load(table)
    except NoSuchTableError:
        return None


def look(tables: Iterable[str]) -> dict[str, Table]:
    """Loads those of the tables that exist, several at once."""
    names = list(tables)
    looked = zip(names, parallel_map(find, names), strict=True)
    return {name: table for name, table in looked if table is not None}


def commit(
    table: str, change: Callable[[Table], Callable[[], object] | None], loaded: Table | None = None
) -> None:
    """Commits a change to a table, and retries if another commit comes first.

    `change` gets the present table and returns a function that commits, or None if there is nothing to do.
    `loaded`: the table, if it is loaded already.
    """
    known = loaded or load(table)
    for attempt in range(_TRIES):
        changed = change(known)
        if changed is None:
            return
        try:
            changed()
            return
        except CommitFailedException:
            if attempt == _TRIES - 1:
                raise
            time.sleep(0.1 * 2**attempt)
            known = load(table)


def exists(table: str) -> bool:
    return _catalog().table_exists(_own(table))


def existing(names: Iterable[str]) -> list[str]:
    """Returns those of the tables that exist. Asks once per namespace, however many tables it has."""
    wanted = list(names)
    of_names = {".".join(_own(name)[:-1]) for name in wanted}
    known = {name for namespace in of_names for name in tables(namespace)}
    return [name for name in wanted if name in known]


def create_namespace(namespace: str) -> None:
    """Creates a namespace if it does not exist. Another process may create it at the same moment."""
    with suppress(IntegrityError):
        _catalog().create_namespace_if_not_exists(namespace)


def create(table: str, schema: Schema, partitions: PartitionSpec, properties: dict[str, str]) -> None:
    """Creates a table, and its namespace, if they do not exist. The catalog assigns its field ids anew."""
    create_namespace(table.split(".")[1])
    _catalog().create_table_if_not_exists(
        _own(table), schema, partition_spec=partitions, properties=properties
    )


def namespaces() -> list[str]:
    return sorted(".".join(namespace) for namespace in _catalog().list_namespaces())


def tables(namespace: str) -> list[str]:
    """Returns the sorted names of a namespace's tables; an empty list if the namespace does not exist."""
    try:
        return sorted(".".join((NAME, *identifier)) for identifier in _catalog().list_tables(namespace))
    except NoSuchNamespaceError:
        return []


def _own(table: str) -> tuple[str, ...]:
    return tuple(table.split(".")[1:])


def _loaded(catalog: Catalog, table: str) -> Table:
    loaded = catalog.load_table(_own(table))
    loaded.metadata = shared(loaded.metadata)
    return loaded


def _catalog() -> Catalog:
    return _opened(_members())


def _members() -> tuple[tuple[str, str], ...]:
    """Returns `Settings.catalog`. A stage asks thousands of times, so it is read only if the environment has
    changed."""
    return _members_in(tuple(os.environ.items()), Path.cwd())


@lru_cache(maxsize=8)
def _members_in(_environment: tuple[tuple[str, str], ...], _folder: Path) -> tuple[tuple[str, str], ...]:
    return tuple(Settings().catalog.items())


def _of_server(properties: dict[str, str]) -> Catalog:
    """Opens a catalog that is a server.

    Raises ConfigError if a member is missing, an address is invalid, or what answers is not a catalog.
    """
    try:
        return load_catalog(NAME, **properties)
    # These include errors of requests for an address without a scheme or an answer that is not JSON. The
    # error's text is not shown: it may quote a member.
    except (KeyError, ValueError) as error:
        raise ConfigError(
            f"CHANGELEDGER_CATALOG does not name a catalog of the type {properties['type']}: "
            f"{type(error).__name__}",
            'correct its `type` and `uri`, such as "rest" and "https://catalog.example.com" (docs/lake.md)',
        ) from None


@cache
def _opened(members: tuple[tuple[str, str], ...]) -> Catalog:
    properties = dict(members)
    if properties["type"] != "sql":
        return _of_server(properties)
    url = sql_url(properties["uri"])
    # Adds the time to wait for its database.
    name, seconds = _PATIENCE[url.get_backend_name()]
    uri = url.set(query={name: seconds, **url.query}).render_as_string(hide_password=False)
    properties |= {"uri": uri, "pool_pre_ping": "true", "schema_version": "v1"}
    properties[PY_CATALOG_IMPL] = f"{KnownFilesCatalog.__module__}.{KnownFilesCatalog.__name__}"
    del properties[TYPE]
    try:
        opened = load_catalog(NAME, **properties)
    except (OperationalError, ProgrammingError):
        # The first use creates its tables, and two processes may collide in that.
        opened = load_catalog(NAME, **properties)
    if isinstance(opened, SqlCatalog) and opened.engine.dialect.name == "sqlite":
        with opened.engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA journal_mode=WAL")
    return opened
