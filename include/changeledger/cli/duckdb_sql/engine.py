"""DuckDB answers a checked query of the lake's tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import duckdb
import psutil  # type: ignore[import-untyped]
from duckdb import DuckDBPyConnection

from changeledger.cli import statement_tables as tables
from changeledger.cli.answers import Answer, plain
from changeledger.cli.duckdb_sql.addresses import quoted
from changeledger.cli.duckdb_sql.check import USE_SPARK, Query, checked
from changeledger.cli.duckdb_sql.datasets import dataset
from changeledger.cli.lake import require_lake
from changeledger.config.settings import Settings
from changeledger.lake import catalog
from changeledger.model.errors import ConfigError

_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    # No file, no network, no other database.
    "enable_external_access": "false",
    "temp_directory": "",
    "allow_community_extensions": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    # Names of the statement are no variables of ours.
    "python_enable_replacements": "false",
    "memory_limit": "50%",
    # Spark's.
    "default_null_order": "nulls_first_on_asc_last_on_desc",
}
# Python has no such value, or not all of it.
_AS_TEXT = {"interval", "timestamp_ns"}
# Types that hold values of others.
_NESTED = {"struct", "list", "array", "map", "union"}
_ROWS_AT_ONCE = 1000
_NAME = r'[`"]?(\w+)[`"]?'
_SHOW = re.compile(
    rf"\s*SHOW\s+(?:(NAMESPACES|SCHEMAS|DATABASES)\s+(?:IN|FROM)\s+{catalog.NAME}"
    rf"|TABLES\s+(?:IN|FROM)\s+{catalog.NAME}\.{_NAME})\s*;?\s*",
    re.IGNORECASE,
)


def answer(sql: str) -> Answer:
    """Raises ConfigError for a statement that is not run, and for one that DuckDB cannot run."""
    if (shown := _shown(sql)) is not None:
        return shown
    connection = connected()
    query = checked(connection, sql)
    require_lake(Settings())
    rows = _rows(connection, query)
    # Its first value is the names: what is wrong is found before anything is printed.
    return Answer([str(name) for name in next(rows)], rows)


def _shown(sql: str) -> Answer | None:
    """What SHOW says of the lake; None if the statement is none. Raises ConfigError for one of no feed."""
    asked = _SHOW.fullmatch(sql)
    if asked is None:
        return None
    require_lake(Settings())
    if asked[1]:
        return Answer(["namespace"], iter([(name,) for name in catalog.namespaces()]))
    feed = asked[2].lower()
    tables.require_feed(feed)
    names = [name.rpartition(".")[2] for name in catalog.tables(feed)]
    return Answer(["namespace", "tableName", "isTemporary"], iter([(feed, name, False) for name in names]))


def connected() -> DuckDBPyConnection:
    connection = duckdb.connect(":memory:", config=_CONFIG)
    # Of the machine or of the container.
    ((half,),) = connection.execute(
        "SELECT parse_formatted_bytes(current_setting('memory_limit'))"
    ).fetchall()
    # The other half is for what pyiceberg reads.
    limit = min(half, psutil.virtual_memory().available // 2)
    connection.execute(
        f"SET TimeZone = 'UTC'; SET enable_progress_bar = false; SET memory_limit = '{limit} B'; "
        f"ATTACH ':memory:' AS {catalog.NAME}; SET lock_configuration = true"
    )
    return connection


def _show(connection: DuckDBPyConnection, query: Query, errors: list[Exception]) -> None:
    """Makes its tables visible, each as it is now. Raises ConfigError for one that is missing."""
    for number, ((schema, name), address) in enumerate(query.tables.items()):
        table = catalog.find(address.full_name)
        if table is None:
            tables.refuse(address.feed, address.table)
        connection.register(f"lake_{number}", dataset(table, address, errors))
        full = f"{catalog.NAME}.{quoted(schema)}"
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {full}")
        connection.execute(f"CREATE VIEW {full}.{quoted(name)} AS FROM temp.main.lake_{number}")


def _is_text(kind: Any) -> bool:
    """Is a value of the type, or one within it, given as DuckDB's text?"""
    if kind.id not in _NESTED:
        return kind.id in _AS_TEXT
    # An array has its length beside its type.
    return any(_is_text(member) for _, member in kind.children if not isinstance(member, int))


def _rows(connection: DuckDBPyConnection, query: Query) -> Iterator[tuple[object, ...]]:
    """The names of the columns, then each row."""
    errors = list[Exception]()
    try:
        _show(connection, query, errors)
        result = connection.execute(query.text)
        names, as_text = zip(*((name, _is_text(kind)) for name, kind, *_ in result.description), strict=True)
        if any(as_text):
            connection.abort()
            cells = (f"#{n}::VARCHAR" if is_text else f"#{n}" for n, is_text in enumerate(as_text, 1))
            text = f"SELECT {', '.join(cells)} FROM ({query.text}\n)"  # noqa: S608 - of the checked statement
            result = connection.execute(text)
        yield names
        while rows := result.fetchmany(_ROWS_AT_ONCE):
            yield from (tuple(map(plain, row)) for row in rows)
    except duckdb.Error as error:
        cause = errors[0] if errors else error
        if isinstance(cause, duckdb.OutOfMemoryException | MemoryError):
            reason = str(cause).partition("\n")[0]
            raise ConfigError(
                f"the query needs more memory than there is: {reason}",
                "ask for fewer columns or rows, or run it with --spark, which uses the disk",
            ) from None
        if cause is not error:
            raise cause from None
        raise ConfigError(str(error), f"correct the statement, or {USE_SPARK}") from None
