"""The lake's catalog as a Python process reads it: the same tables that Spark writes, without Spark.

Spark and pyiceberg share the catalog's database. A commit of either changes a table's entry only where it is
what the commit was built on, so neither writes over the other.
"""

from __future__ import annotations

import warnings
from contextlib import suppress
from functools import cache

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.table import Table
from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError, IntegrityError, OperationalError, ProgrammingError

from changeledger.config.settings import Settings
from changeledger.model.errors import ConfigError

# As Spark's configuration calls it; the catalog's database keeps it with every table.
NAME = "lake"
# It writes in place of rows that may not be there, and writes their small files again.
for _said in ("Delete operation did not match any records", "Merge on read is not yet supported"):
    warnings.filterwarnings("ignore", _said, UserWarning)
_BUSY_SECONDS = 30
_CONNECT_SECONDS = 5
# Of a JDBC URL, what libpq takes by the same name and in the same meaning.
_TLS = {"sslmode", "sslrootcert", "sslcert", "sslkey"}


def load(table: str) -> Table:
    """The table as it is now; its name as Spark has it, `lake.<namespace>.<name>`.

    Raises pyiceberg's NoSuchTableError.
    """
    return _catalog().load_table(_own(table))


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
        return sorted(".".join((NAME, *one)) for one in _catalog().list_tables(namespace))
    except NoSuchNamespaceError:
        return []


def _own(table: str) -> tuple[str, ...]:
    return tuple(table.split(".")[1:])


def _catalog() -> SqlCatalog:
    settings = Settings()
    return _opened(settings.catalog_uri, settings.catalog_user, settings.catalog_password, settings.warehouse)


@cache
def _opened(uri: str, user: str, password: str, warehouse: str) -> SqlCatalog:
    url = _url(uri, user, password).render_as_string(hide_password=False)
    properties = {"uri": url, "warehouse": warehouse, "pool_pre_ping": "true", "schema_version": "v1"}
    try:
        opened = SqlCatalog(NAME, **properties)
    except (OperationalError, ProgrammingError):
        # Its first use makes its tables; two at once disturb each other.
        opened = SqlCatalog(NAME, **properties)
    if opened.engine.dialect.name == "sqlite":
        with opened.engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA journal_mode=WAL")
    return opened


def _url(jdbc: str, user: str, password: str) -> URL:
    """Raises ConfigError if the catalog's JDBC URL is of no database that the lake can have."""
    try:
        url = make_url(jdbc.removeprefix("jdbc:").replace("sqlite:", "sqlite:///", 1))
    except ArgumentError:
        url = make_url("unknown://")
    backend = url.get_backend_name()
    if backend == "sqlite":
        return url.set(query={"timeout": str(_BUSY_SECONDS)})
    if backend == "postgresql":
        query = {name: value for name, value in url.query.items() if name in _TLS}
        query.setdefault("connect_timeout", str(_CONNECT_SECONDS))
        return url.set(
            drivername="postgresql+psycopg", username=user or None, password=password or None, query=query
        )
    raise ConfigError(
        "the lake's catalog is in no database that changeledger knows",
        "set CHANGELEDGER_CATALOG_URI to jdbc:sqlite:/absolute/path/catalog.db or to "
        "jdbc:postgresql://host:port/database",
    )
