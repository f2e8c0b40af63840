"""Checks the parts of a query, on the tree that sqlglot makes of it."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError

from changeledger.model import table_names
from changeledger.read_only_sql.tokens import Unreadable

# Conditions are all expressions for a value: columns, literals, operators, and functions, whose names are
# checked elsewhere. The others are parts of a query that reads or computes.
_PARTS = (
    exp.Condition, exp.Select, exp.SetOperation, exp.Subquery, exp.Values, exp.With, exp.CTE, exp.From,
    exp.Join, exp.Lateral, exp.Table, exp.TableAlias, exp.TableSample, exp.Version, exp.Pivot, exp.Where,
    exp.Group, exp.Cube, exp.Rollup, exp.GroupingSets, exp.Having, exp.Window, exp.WindowSpec, exp.Order,
    exp.Ordered, exp.Sort, exp.Cluster, exp.Distribute, exp.Limit, exp.Offset, exp.Distinct, exp.Alias,
    exp.Aliases, exp.PivotAlias, exp.Identifier, exp.Star, exp.Tuple, exp.Lambda, exp.Filter, exp.WithinGroup,
    exp.IgnoreNulls, exp.RespectNulls, exp.Interval, exp.IntervalSpan, exp.Var, exp.DataType,
    exp.DataTypeParam, exp.ColumnDef, exp.PropertyEQ,
)  # fmt: skip
# Values that do not come from the statement.
_FOREIGN = (exp.Placeholder, exp.Parameter, exp.SessionParameter)
_QUERIES = (exp.Select, exp.SetOperation, exp.Subquery, exp.Values)
_OF_TABLE = {"this", "db", "catalog", "alias", "version", "sample", "joins", "laterals", "pivots"}
# Names that a WITH may not define, because Spark reads them as the begin of something else: `FROM (TABLE x)`.
_BEGINS = {"table", "stream", "lateral", "values", "select", "from", "map", "reduce"}
_MOST = 100


def parsed(query: str) -> exp.Expr:
    """Parses one query. Raises Unreadable."""
    # sqlglot warns about statements that it takes for commands. They are refused here.
    logging.getLogger("sqlglot").setLevel(logging.ERROR)
    try:
        trees = sqlglot.parse(query, read="spark")
    except ParseError as error:
        raise Unreadable(_near(error)) from None
    except (SqlglotError, RecursionError) as error:
        raise Unreadable(str(error)[:_MOST]) from None
    if len(trees) != 1 or not isinstance(trees[0], _QUERIES):
        raise Unreadable("it is not a query")
    return trees[0]


def refusal(tree: exp.Expr) -> str | None:
    """Returns why the query is refused, or None if all of it is allowed."""
    for part in tree.walk():
        if isinstance(part, _FOREIGN) or not isinstance(part, _PARTS):
            return f"it has a part that `query` does not run: {part.sql('spark')[:_MOST]}"
        if isinstance(part, exp.CTE) and part.alias.lower() in _BEGINS:
            return f"a WITH may not name {part.alias}"
        if isinstance(part, exp.Table) and not _is_allowed(part):
            return f"{part.sql('spark')[:_MOST]} is not a table of the lake"
    return None


def aliases(tree: exp.Expr) -> set[int]:
    """Returns where the names of aliases with columns end: `a (x, y)` looks like a function's call."""
    names = (part.this for part in tree.find_all(exp.TableAlias) if part.args.get("columns"))
    return {name.meta["end"] + 1 for name in names if name is not None and "end" in name.meta}


def _near(error: ParseError) -> str:
    for place in error.errors:
        return f"{place['description']} near {(place['highlight'] or '').strip()[:_MOST]!r}"
    return str(error)[:_MOST]


def _is_allowed(table: exp.Table) -> bool:
    if not {name for name, value in table.args.items() if value} <= _OF_TABLE:
        return False
    names = table.parts
    if not all(isinstance(name, exp.Identifier) for name in names):
        return False
    if len(names) == 1:
        return names[0].name.lower() in _visible(table)
    return names[0].name == table_names.CATALOG


def _visible(table: exp.Table) -> Iterator[str]:
    """Yields the WITH queries that the table may be: those around it and, within a WITH, those before it."""
    at: exp.Expr = table
    while at.parent is not None:
        outer = at.parent
        if isinstance(outer, exp.With):
            position = next(i for i, query in enumerate(outer.expressions) if query is at)
            queries = outer.expressions[: position + bool(outer.args.get("recursive"))]
        else:
            around = outer.args.get("with_")
            queries = around.expressions if around is not None and around is not at else []
        yield from (query.alias.lower() for query in queries)
        at = outer
