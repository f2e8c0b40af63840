"""Finds addresses of the lake's tables in a statement, with the state of the table that each asks for.

    lake.shop.orders.branch_x    lake.shop.orders VERSION AS OF 'release_12'
    lake.shop.orders.tag_x       lake.shop.orders AT (VERSION => 'release_12')
    lake.shop.orders.snapshots   lake.shop.orders TIMESTAMP AS OF '2026-01-01'

A table in a DuckDB catalog has one state only. So each table with a state becomes a table of the same name in
a schema of its own, such as `"shop 1"`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import duckdb

from changeledger.lake import catalog

# Metadata tables whose names Spark and pyiceberg share.
METADATA = frozenset({"snapshots", "refs", "history", "files", "manifests", "partitions", "entries"})

_REF = re.compile(r"(?P<kind>branch|tag)_(?P<name>.+)", re.DOTALL)
_NAMES = {duckdb.token_type.identifier, duckdb.token_type.keyword}
# The words and signs of a state after a table's name; literals are replaced with LITERAL.
_STATES = re.compile(
    r"""
    (?: (?:FOR\ )? (?P<of>VERSION|SYSTEM_VERSION|TIMESTAMP|SYSTEM_TIME)\ AS\ OF (?:\ TIMESTAMP)? \ LITERAL
    | AT\ \( \ (?P<at>VERSION|TIMESTAMP)\ => (?:\ TIMESTAMP)? \ LITERAL \ \) ) (?!\S)
    """,
    re.VERBOSE,
)
_LONGEST_STATE = 7


class Address(NamedTuple):
    """A table and its state. `kind` is empty for main, else branch, tag, version, timestamp or metadata."""

    feed: str
    table: str
    kind: str = ""
    of: str = ""

    @property
    def full_name(self) -> str:
        return f"{catalog.NAME}.{self.feed}.{self.table}"


class Reading(NamedTuple):
    """A statement for DuckDB, and the addresses with a state by their schema and table in the statement."""

    text: str
    states: dict[tuple[str, str], Address]


class _Token(NamedTuple):
    text: str
    kind: object
    # Byte offsets in the statement.
    begin: int
    end: int

    @property
    def name(self) -> str | None:
        """The name that the token stands for, or None if it cannot be a name."""
        quote = self.text[:1]
        if quote in {'"', "`"} and len(self.text) > 1:
            return self.text[1:-1].replace(quote * 2, quote)
        return self.text if self.kind in _NAMES else None

    @property
    def literal(self) -> str | None:
        """The value of a text or integer literal, or None."""
        if self.text.startswith("'"):
            return self.text[1:-1].replace("''", "'")
        return self.text if self.text.isdecimal() else None

    @property
    def shape(self) -> str:
        return "LITERAL" if self.literal is not None else self.text.upper()


def read(sql: str) -> Reading:
    """Rewrites a statement for DuckDB. Raises UnicodeEncodeError for text that is not UTF-8."""
    raw = sql.encode()
    tokens = _tokens(sql, raw)
    # DuckDB's parser would see a second, empty statement after a final semicolon.
    while tokens and tokens[-1].text == ";":
        tokens.pop()
    parts, schemas, at, written = [], dict[Address, str](), 0, 0
    while at < len(tokens):
        address, after = _address(tokens, at)
        if address is not None and address.kind:
            schema = schemas.setdefault(address, f"{address.feed} {len(schemas) + 1}")
            name = f"{catalog.NAME}.{quoted(schema)}.{quoted(address.table)}"
            parts += [raw[written : tokens[at].begin], name.encode()]
            written = tokens[after - 1].end
        at = after
    parts.append(raw[written : tokens[-1].end if tokens else 0])
    states = {(schema, address.table): address for address, schema in schemas.items()}
    return Reading(b"".join(parts).decode(), states)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _tokens(sql: str, raw: bytes) -> list[_Token]:
    """Returns DuckDB's tokens of the statement, without comments."""
    cuts = duckdb.tokenize(sql)
    ends = [*(begin for begin, _ in cuts), len(raw)][1:]
    return [
        _Token(text, kind, begin, begin + len(text.encode()))
        for (begin, kind), end in zip(cuts, ends, strict=False)
        if kind != duckdb.token_type.comment and (text := raw[begin:end].decode().rstrip())
    ]


def _address(tokens: list[_Token], at: int) -> tuple[Address | None, int]:
    """Returns the address that begins at the token, or None, and the index of the token after it."""
    names, after = [tokens[at].name], at + 1
    while after + 1 < len(tokens) and tokens[after].text == "." and tokens[after + 1].name is not None:
        names.append(tokens[after + 1].name)
        after += 2
    if (names[0] or "").lower() != catalog.NAME or len(names) not in {3, 4}:
        return None, after
    feed, table = ((name or "").lower() for name in names[1:3])
    if len(names) == 4:
        return _suffixed(feed, table, names[3] or ""), after
    # Enough tokens for the longest state.
    following = tokens[after : after + _LONGEST_STATE]
    state = _STATES.match(" ".join(token.shape for token in following))
    if state is None:
        return Address(feed, table), after
    length = state[0].count(" ") + 1
    value = next(token.literal for token in following[:length] if token.literal is not None)
    kind = "version" if (state["of"] or state["at"]).endswith("VERSION") else "timestamp"
    return Address(feed, table, kind, value), after + length


def _suffixed(feed: str, table: str, suffix: str) -> Address | None:
    if suffix.lower() in METADATA:
        return Address(feed, table, "metadata", suffix.lower())
    ref = _REF.fullmatch(suffix)
    return None if ref is None else Address(feed, table, ref["kind"], ref["name"])
