"""Runs a checked query of the lake's tables on DuckDB."""

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
from changeledger.lake import catalog
from changeledger.model.errors import ConfigError

_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    # No file, no network, no other database.
    "enable_external_access": "false",
    "temp_directory": "",
    "allow_community_extensions": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    # Names in the statement must not refer to variables of this program.
    "python_enable_replacements": "false",
    "memory_limit": "50%",
    # As in Spark.
    "default_null_order": "nulls_first_on_asc_last_on_desc",
}
# Types whose values Python cannot represent, or not completely.
_AS_TEXT = {"interval", "timestamp_ns"}
# Types that contain values of other types.
_NESTED = {"struct", "list", "array", "map", "union"}
_ROWS_AT_ONCE = 1000
_NAME = r'[`"]?(\w+)[`"]?'
_SHOW = re.compile(
    rf"\s*SHOW\s+(?:(NAMESPACES|SCHEMAS|DATABASES)\s+(?:IN|FROM)\s+{catalog.NAME}"
    rf"|TABLES\s+(?:IN|FROM)\s+{catalog.NAME}\.{_NAME})\s*;?\s*",
    re.IGNORECASE,
)


def answer(sql: str) -> Answer:
    """Answers a statement. Raises ConfigError if it is refused, or if DuckDB cannot run it."""
    if (shown := _shown(sql)) is not None:
        return shown
    connection = connected()
    query = checked(connection, sql)
    require_lake()
    rows = _rows(connection, query)
    # The first item has the column names. Errors thus occur before anything is printed.
    return Answer([str(name) for name in next(rows)], rows)


def _shown(sql: str) -> Answer | None:
    """Returns the answer of a SHOW statement, or None for another. Raises ConfigError for an unknown feed."""
    asked = _SHOW.fullmatch(sql)
    if asked is None:
        return None
    require_lake()
    if asked[1]:
        return Answer(["namespace"], iter([(name,) for name in catalog.namespaces()]))
    feed = asked[2].lower()
    tables.require_feed(feed)
    names = [name.rpartition(".")[2] for name in catalog.tables(feed)]
    return Answer(["namespace", "tableName", "isTemporary"], iter([(feed, name, False) for name in names]))


def connected() -> DuckDBPyConnection:
    connection = duckdb.connect(":memory:", config=_CONFIG)
    # Half of the memory of the machine or of the container.
    ((half,),) = connection.execute(
        "SELECT parse_formatted_bytes(current_setting('memory_limit'))"
    ).fetchall()
    # The other half is for the data that pyiceberg reads.
    limit = min(half, psutil.virtual_memory().available // 2)
    connection.execute(
        f"SET TimeZone = 'UTC'; SET enable_progress_bar = false; SET memory_limit = '{limit} B'; "
        f"ATTACH ':memory:' AS {catalog.NAME}; SET lock_configuration = true"
    )
    return connection


def _show(connection: DuckDBPyConnection, query: Query, errors: list[Exception]) -> None:
    """Registers the query's tables, each in its current state. Raises ConfigError for one that is missing."""
    for number, ((schema, name), address) in enumerate(query.tables.items()):
        table = catalog.find(address.full_name)
        if table is None:
            tables.refuse(address.feed, address.table)
        connection.register(f"lake_{number}", dataset(table, address, errors))
        full = f"{catalog.NAME}.{quoted(schema)}"
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {full}")
        connection.execute(f"CREATE VIEW {full}.{quoted(name)} AS FROM temp.main.lake_{number}")


def _is_text(kind: Any) -> bool:
    """Returns whether values of the type, or values nested in it, are given as DuckDB's text."""
    if kind.id not in _NESTED:
        return kind.id in _AS_TEXT
    # The children of an array include its length.
    return any(_is_text(member) for _, member in kind.children if not isinstance(member, int))


def _rows(connection: DuckDBPyConnection, query: Query) -> Iterator[tuple[object, ...]]:
    """Yields the column names, then each row."""
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
                f"the query needs more memory than is available: {reason}",
                "ask for fewer columns or rows, or run it with --spark, which uses the disk",
            ) from None
        if cause is not error:
            raise cause from None
        raise ConfigError(str(error), f"correct the statement, or {USE_SPARK}") from None
