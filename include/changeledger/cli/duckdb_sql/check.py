"""Checks, on the tree of DuckDB's own parser, that a statement only reads tables of the lake and computes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from duckdb import DuckDBPyConnection, ParserException

from changeledger.cli.duckdb_sql import addresses
from changeledger.cli.duckdb_sql.addresses import Address
from changeledger.cli.duckdb_sql.functions import COMPUTING, TABLES
from changeledger.lake import catalog
from changeledger.model.errors import ConfigError

USE_SPARK = "run it with --spark if it is Spark's SQL"
_REMEDY = (
    "`query` changes nothing: it answers one SELECT, WITH, FROM, VALUES, TABLE, DESCRIBE or SUMMARIZE of "
    f"tables of the lake ({catalog.NAME}.<feed>.<table>) in DuckDB's SQL, with functions that only compute a "
    f"value from their arguments, and SHOW TABLES IN and SHOW NAMESPACES IN {catalog.NAME}"
)
_EXPRESSIONS = {
    "BETWEEN", "CASE", "CAST", "COLLATE", "COLUMN_REF", "COMPARISON", "CONJUNCTION", "CONSTANT",
    "DEFAULT", "FUNCTION", "LAMBDA", "LAMBDA_REF", "OPERATOR", "POSITIONAL_REFERENCE", "STAR",
    "SUBQUERY", "TYPE", "WINDOW",
}  # fmt: skip
# Queries, items of FROM, and clauses that order and limit.
_PARTS = {
    "SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE",
    "BASE_TABLE", "EMPTY", "EXPRESSION_LIST", "JOIN", "PIVOT", "SHOW_REF", "SUBQUERY", "TABLE_FUNCTION",
    "DISTINCT_MODIFIER", "LIMIT_MODIFIER", "LIMIT_PERCENT_MODIFIER", "ORDER_MODIFIER",
    "ASCENDING", "DESCENDING", "ORDER_DEFAULT",
}  # fmt: skip
_SHOWN = {"DESCRIBE", "SUMMARY"}
_MOST = 100
# A time with its zone as text.
_ZONED = re.compile(r"\s*\d+-\d+-\d+[ T]+\d+:\d+(?::\d+(?:\.\d+)?)?\s*(?P<zone>[^\s\d.:].*?)\s*")
_UTC = re.compile(r"Z|UTC|[+-]00(?::?00)?", re.IGNORECASE)
_WITHOUT_ZONE = re.compile(r"DATETIME|TIMESTAMP(?:_[MNU]?S)?", re.IGNORECASE)


class Query(NamedTuple):
    """A statement that only reads the lake and computes, and what it reads, by schema and table in DuckDB."""

    text: str
    tables: dict[tuple[str, str], Address]


def checked(connection: DuckDBPyConnection, sql: str) -> Query:
    """Returns the checked statement. Raises ConfigError if it does, or may do, anything else."""
    try:
        reading = addresses.read(sql)
        tree = _tree(connection, reading.text)
        tables = _tables(tree, reading.states)
    except _Refused as refused:
        raise ConfigError(str(refused), _remedy(sql)) from None
    except (UnicodeEncodeError, RecursionError):
        raise ConfigError(
            "the statement cannot be checked: it is not UTF-8, or it is nested too deeply", _REMEDY
        ) from None
    return Query(reading.text, tables)


class _Refused(Exception):
    """Raised for a statement that is not run. Says why."""


def _remedy(sql: str) -> str:
    # Imported here because it takes a tenth of a second, and only a refusal needs it.
    from changeledger.read_only_sql.check import checked as checked_for_spark  # noqa: PLC0415

    try:
        checked_for_spark(sql)
    except ConfigError:
        return _REMEDY
    return "run it with --spark: without that, `query` runs DuckDB's SQL"


def _tree(connection: DuckDBPyConnection, text: str) -> dict[str, Any]:
    """Returns the tree of the only query in the text. Raises _Refused if there is not exactly one."""
    rows = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [text]).fetchall()
    answer = json.loads(rows[0][0])
    if answer["error"] and answer["error_type"] == "parser":
        try:
            # Its error has the line and the place in it, too.
            connection.extract_statements(text)
        except ParserException as error:
            raise _Refused(f"the statement cannot be read: {error}") from None
        raise _Refused(f"the statement cannot be read: {answer['error_message']}")
    if answer["error"] or len(answer["statements"]) != 1:
        raise _Refused(f"`query` does not run {text[:_MOST] or 'nothing'}")
    return dict(answer["statements"][0]["node"])


def _tables(tree: dict[str, Any], states: dict[tuple[str, str], Address]) -> dict[tuple[str, str], Address]:
    """Returns the lake's tables in the tree. Raises _Refused for a part that is not listed."""
    nodes = list(_nodes(tree))
    for node in nodes:
        _require_listed(node)
    queries = {
        entry["key"].lower() for node in nodes for entry in (node.get("cte_map") or {}).get("map") or ()
    } | {node["cte_name"].lower() for node in nodes if node.get("cte_name")}
    tables = {}
    for node in nodes:
        if node.get("type") != "BASE_TABLE":
            continue
        written = [str(name) for name in node["qualified_name"]["path"]]
        path = [name.lower() for name in written]
        if len(path) == 1 and path[0] in queries:
            continue
        if node.get("at_clause"):
            raise _Refused(f"AT of {'.'.join(path)[:_MOST]} has neither a plain text nor a number")
        if len(path) != 3 or path[0] != catalog.NAME:
            raise _Refused(f"{'.'.join(written)[:_MOST]} is not a table of the lake")
        schema, table = path[1:]
        tables[schema, table] = states.get((schema, table)) or Address(schema, table)
    return tables


def _nodes(tree: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields all objects of the tree. The function of a table function comes without its name."""
    waiting: list[Any] = [tree]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting += part
        elif isinstance(part, dict):
            yield part
            if part.get("type") == "TABLE_FUNCTION":
                function = {key: value for key, value in part["function"].items() if key != "function_name"}
                part = {**part, "function": function}
            waiting += part.values()


def _require_listed(node: dict[str, Any]) -> None:
    kind, group = node.get("type"), node.get("class")
    if group is not None and group not in _EXPRESSIONS:
        raise _Refused(f"it has a part that `query` does not run: {group.lower()}")
    if group is None and isinstance(kind, str) and kind not in _PARTS:
        raise _Refused(f"it has a part that `query` does not run: {kind.lower()}")
    if kind == "SHOW_REF" and (node.get("show_type") not in _SHOWN or not node.get("query")):
        raise _Refused(f"`query` does not run SHOW {str(node.get('table_name') or '')[:_MOST]}".rstrip())
    if group == "CAST":
        _require_no_zone(node)
    if kind == "TABLE_FUNCTION":
        _require_function(node["function"]["function_name"], TABLES)
    elif "function_name" in node:
        _require_function(node["function_name"], COMPUTING)


def _require_no_zone(cast: dict[str, Any]) -> None:
    """Refuses TIMESTAMP '2026-01-31 12:00:00+01:00': DuckDB drops the offset, so it is an hour too late."""
    name, text = cast["type_expr"].get("type_name", ""), (cast["child"].get("literal") or {}).get("text")
    if not isinstance(text, str) or not _WITHOUT_ZONE.fullmatch(name):
        return
    zoned = _ZONED.fullmatch(text)
    if zoned is not None and not _UTC.fullmatch(zoned["zone"]):
        raise _Refused(
            f"{name.upper()} has no zone in DuckDB, which would ignore that of '{text[:_MOST]}': write "
            "TIMESTAMPTZ"
        )


def _require_function(name: str, known: frozenset[str]) -> None:
    # Operators are functions without a letter in their names.
    if any(letter.isalpha() or letter == "_" for letter in name) and name.lower() not in known:
        raise _Refused(f"{name[:_MOST]} is not among the functions that `query` runs")
