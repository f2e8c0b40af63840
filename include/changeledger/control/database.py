"""Engine, migrations and errors of the control store, for both SQLite and PostgreSQL."""

from __future__ import annotations

import fcntl
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect, text
from sqlalchemy.exc import (
    DataError,
    DBAPIError,
    IntegrityError,
    NoSuchModuleError,
    NotSupportedError,
    ProgrammingError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeout

from changeledger.config.database_url import database_url
from changeledger.config.folders import private
from changeledger.control.tables.base import ControlTable
from changeledger.model.errors import ConfigError, SourceUnavailable

MIGRATIONS = Path(__file__).resolve().parent / "migrations"
BUSY_SECONDS = 30
# Without this timeout, libpq would wait for an unreachable PostgreSQL as long as TCP does.
CONNECT_SECONDS = 5
_MIGRATION_LOCK = 0x636C6564676572  # "cledger": any number that no other program locks in that database


@cache
def engine_for(url: str) -> Engine:
    """Returns the process's engine for a database. Raises ConfigError if `url` does not name a usable one."""
    parsed = _parsed(url)
    if parsed.get_backend_name() == "sqlite":
        return _sqlite(parsed)
    try:
        return _postgresql(parsed)
    except ModuleNotFoundError as error:
        raise ConfigError(f"the control store's driver is not installed: {error}", _REMEDY) from None


_REMEDY = (
    "set CHANGELEDGER_CONTROL_URL to sqlite:////absolute/path/control.db or to "
    "postgresql+psycopg://user:password@host:port/database; in the password `@` is `%40`, `%` is `%25`"
)


def _parsed(url: str) -> URL:
    parsed = database_url(url)
    if parsed is None:
        raise ConfigError("CHANGELEDGER_CONTROL_URL is not a database URL", _REMEDY)
    backend = parsed.get_backend_name()
    try:
        parsed.get_dialect()
    except (NoSuchModuleError, ModuleNotFoundError):
        raise ConfigError(
            "CHANGELEDGER_CONTROL_URL does not name a known kind of database", _REMEDY
        ) from None
    if backend not in {"sqlite", "postgresql"}:
        raise ConfigError(f"the control store cannot be kept in {backend}", _REMEDY)
    if backend == "sqlite" and not parsed.database:
        raise ConfigError("the control store's SQLite database has no file", _REMEDY)
    return parsed


def _postgresql(url: URL) -> Engine:
    """Returns an engine whose sessions do not depend on the defaults of the server, database or role."""
    patience = {} if "connect_timeout" in url.query else {"connect_timeout": CONNECT_SECONDS}
    # A stricter level fixes what a transaction sees before it waits for a lock, so it would miss what the
    # lock's last holder has written.
    engine = create_engine(url, pool_pre_ping=True, isolation_level="READ COMMITTED", connect_args=patience)

    @event.listens_for(engine, "connect")
    def _print_times_in_iso(connection: Any, _record: Any) -> None:
        # The driver reads times in no other style.
        connection.cursor().execute("SET DateStyle = 'ISO'")
        connection.commit()

    return engine


def _sqlite(url: URL) -> Engine:
    engine = create_engine(url, connect_args={"timeout": BUSY_SECONDS})

    @event.listens_for(engine, "connect")
    def _own_the_transactions(connection: Any, _record: Any) -> None:
        # The driver opens transactions late and commits before DDL, so BEGIN is issued explicitly.
        connection.isolation_level = None

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        # IMMEDIATE: a transaction that reads and then writes waits at its start, where the busy timeout
        # applies. At its first write, SQLite would refuse at once.
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


_SECRET = ("password", "secret", "key", "token")
# Errors about a statement instead of the database: they may be bugs of ours.
_FAULTS_OF_STATEMENTS = (DataError, IntegrityError, NotSupportedError, ProgrammingError)


@contextmanager
def reachable(engine: Engine) -> Iterator[None]:
    """Raises errors of a failing database as SourceUnavailable, without passwords.

    The database may be unreachable, full or read-only; each driver has errors of its own for that.
    """
    try:
        yield
    except _FAULTS_OF_STATEMENTS:
        raise
    # The driver itself raises sqlite3.DatabaseError, before the first transaction, if a file is no database.
    except (DBAPIError, PoolTimeout, sqlite3.DatabaseError) as error:
        # Secrets are removed from the query, too: libpq takes a password there.
        url = engine.url.difference_update_query(_secrets(engine.url)).render_as_string(hide_password=True)
        raise SourceUnavailable(
            f"the control store {url} cannot be used: {_without_secrets(error, engine.url)}",
            "start that database, or make the file and its folder writable (CHANGELEDGER_CONTROL_URL); if "
            "the file is damaged, restore its backup (docs/backup.md)",
        ) from None


def _secrets(url: URL) -> list[str]:
    """Returns the names of the URL's query parameters that are secret."""
    return [name for name in url.query if any(word in name.lower() for word in _SECRET)]


def _without_secrets(error: DBAPIError | PoolTimeout | sqlite3.DatabaseError, url: URL) -> str:
    message = " ".join(str(getattr(error, "orig", None) or error).split())
    values = {str(url.password or "")}
    for value in (url.query[name] for name in _secrets(url)):
        values |= {value} if isinstance(value, str) else {*value}
    for value in sorted(values - {""}, key=len, reverse=True):
        message = message.replace(value, "***")
    return message


def upgrade(url: str) -> None:
    """Brings the schema to this version's state. Several processes may call it at once."""
    engine = engine_for(url)
    with reachable(engine), _one_at_a_time(engine) as connection:
        _migrate(connection)


@contextmanager
def _one_at_a_time(engine: Engine) -> Iterator[Connection]:
    """Provides a transaction that only one process at a time can be in."""
    if engine.dialect.name == "sqlite":
        with _locked_file(engine), engine.begin() as connection:
            yield connection
    else:
        with engine.begin() as connection:
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _MIGRATION_LOCK})
            yield connection


@contextmanager
def _locked_file(engine: Engine) -> Iterator[None]:
    """Locks the store and creates its file in WAL mode: the switch to WAL ignores the busy timeout."""
    database = Path(str(engine.url.database)).absolute()
    try:
        private(database.parent)
        lock = database.with_name(f"{database.name}.lock").open("w")
    except OSError as error:
        raise SourceUnavailable(
            f"the control store's folder {database.parent} cannot be written: {error.strerror}",
            "make the folder writable, or set CHANGELEDGER_HOME or CHANGELEDGER_CONTROL_URL",
        ) from None
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        raw = engine.raw_connection()
        try:
            raw.cursor().execute("PRAGMA journal_mode=WAL")
        finally:
            raw.close()
        yield


def _migrate(connection: Connection) -> None:
    # Alembic is imported here since only the first use of a store in a process needs it.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415
    from alembic.util import CommandError  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise ConfigError(
            f"the control store was written by another version of changeledger: {error}",
            "install the newer version, or point CHANGELEDGER_CONTROL_URL to a store of this one. To go back "
            "to an older version, restore its backup (docs/maintenance.md, 'Upgrade')",
        ) from error
    _require_whole(connection)


def _require_whole(connection: Connection) -> None:
    """Raises ConfigError if a store claims to be of this version but lacks a table or column."""
    stored_columns = {
        (str(table), column["name"])
        for (_, table), columns in inspect(connection).get_multi_columns().items()
        for column in columns
    }
    wanted = ControlTable.metadata.tables.values()
    lacking = [
        f"{t.name}.{c.name}" for t in wanted for c in t.columns if (t.name, c.name) not in stored_columns
    ]
    if lacking:
        raise ConfigError(
            f"the control store lacks {', '.join(lacking)}: an unreleased version has created it",
            "use stores that a release has created, or begin with new ones (CHANGELEDGER_HOME)",
        )
