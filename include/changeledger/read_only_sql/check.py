"""Checks one statement. Spark runs only statements that come from here."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import NamedTuple, NoReturn

from changeledger.model import table_names
from changeledger.model.errors import ConfigError
from changeledger.read_only_sql import tree
from changeledger.read_only_sql.functions import COMPUTING
from changeledger.read_only_sql.tokens import Token, Unreadable, cut, require_same_quotes

_REMEDY = (
    "`query` changes nothing: it answers one SELECT, WITH ... SELECT, VALUES or TABLE of tables of the lake "
    f"({table_names.CATALOG}.<feed>.<table>), with functions that compute something of their arguments, and "
    "SHOW, DESCRIBE and EXPLAIN of the same"
)
# Words of the grammar, types included, that may stand before a parenthesis.
_GRAMMAR = """
    all and any as between by case cross cube distinct else except exists filter for from group having in
    ilike intersect interval join lateral like limit minus not on or over offset pivot qualify regexp
    repeatable rlike rollup select sets some tablesample then union unpivot using values when where with
    char character dec decimal numeric varchar
"""
_BEFORE_PARENTHESES = frozenset(_GRAMMAR.split())
_NAME = rf"{table_names.CATALOG}(?:\ \.\ (?:[A-Z0-9_`]+|{table_names.CATALOG}))*"
# Statements other than queries, with words in capitals, strings as ' and quoted names as `.
_OTHERS = re.compile(
    rf"""
    TABLE\ {_NAME}
    | SHOW\ CATALOGS
    | SHOW\ (?:NAMESPACES|SCHEMAS|DATABASES)\ (?:IN|FROM)\ {_NAME}(?:(?:\ LIKE)?\ ')?
    | SHOW\ (?:TABLES|VIEWS)\ (?:IN|FROM)\ {_NAME}(?:(?:\ LIKE)?\ ')?
    | SHOW\ (?:COLUMNS\ (?:IN|FROM)|CREATE\ TABLE|PARTITIONS)\ {_NAME}
    | SHOW\ TBLPROPERTIES\ {_NAME}(?:\ \(\ '\ \))?
    | DESC(?:RIBE)?\ (?:NAMESPACE|SCHEMA|DATABASE)\ (?:EXTENDED\ )?{_NAME}
    | DESC(?:RIBE)?\ (?:TABLE\ )?(?:EXTENDED\ |FORMATTED\ )?{_NAME}(?:\ [A-Z0-9_`]+(?:\ \.\ [A-Z0-9_`]+)*)?
    """,
    re.VERBOSE,
)
_BEFORE_QUERIES = re.compile(r"(EXPLAIN(?: (?:EXTENDED|FORMATTED|COST|CODEGEN))?|DESC(?:RIBE)?(?: QUERY)?) ")
_MOST = 100


class Statement(NamedTuple):
    """A statement that only reads the lake and computes, without comments."""

    text: str


def checked(sql: str) -> Statement:
    """Returns the checked statement. Raises ConfigError if it does, or may do, anything else."""
    try:
        tokens, text = cut(sql)
        shape = " ".join(map(_shape, tokens))
        if _OTHERS.fullmatch(shape):
            return Statement(text)
        # The number of words that EXPLAIN or DESCRIBE puts before the query.
        before = _BEFORE_QUERIES.match(shape)
        begin = before[1].count(" ") + 1 if before else 0
        prefix = text[: tokens[begin - 1].end] if begin else ""
        first = next(iter(tokens[begin:]), None)
        if first is None or not (first.is_word("SELECT", "WITH", "FROM", "VALUES") or first.text == "("):
            _refuse(f"`query` does not run {text[:_MOST] or 'nothing'}")
        # Only a query can stand in parentheses: no INSERT after a WITH or a FROM.
        query = f"({text[len(prefix) :].strip()}\n)"
        _require_query(query)
    except Unreadable as error:
        _refuse(f"the statement cannot be checked: {error}")
    return Statement(f"{prefix} {query}" if prefix else query)


def bare(sql: str) -> str:
    """Returns the statement without comments and final semicolons. Raises ConfigError."""
    try:
        return cut(sql).text
    except Unreadable as error:
        _refuse(f"the statement cannot be checked: {error}")


def _require_query(query: str) -> None:
    """Raises ConfigError or Unreadable unless the query only reads and computes."""
    require_same_quotes(query)
    tokens = cut(query).tokens
    # Of statements that read, only scripts have USING without a parenthesis:
    # `SELECT TRANSFORM(a) USING 'program'`.
    for before, token in pairwise(tokens):
        if before.is_word("USING") and token.text != "(":
            _refuse(f"USING {token.text[:_MOST]} would run a program")
        if before.text == "|" and token.text == ">":
            raise Unreadable("it has a pipe, |>")
    parsed = tree.parsed(query)
    _require_functions(tokens, tree.aliases(parsed))
    if refusal := tree.refusal(parsed):
        _refuse(refusal)


def _require_functions(tokens: list[Token], aliases: set[int]) -> None:
    """Checks the names before parentheses, independently of how sqlglot parses functions."""
    for at, (before, token) in enumerate(pairwise(tokens)):
        if token.text != "(" or before.kind == "sign" or before.end in aliases:
            continue
        known = COMPUTING if before.kind == "quoted" else COMPUTING | _BEFORE_PARENTHESES
        name, is_qualified = before.name, at > 0 and tokens[at - 1].text == "."
        if name is None or is_qualified or name.lower() not in known:
            _refuse(f"{before.text[:_MOST]} is not among the functions that `query` runs")


def _shape(token: Token) -> str:
    if token.name == table_names.CATALOG:
        return table_names.CATALOG
    return {"string": "'", "quoted": "`"}.get(token.kind, token.text.upper())


def _refuse(message: str) -> NoReturn:
    raise ConfigError(message, _REMEDY)
