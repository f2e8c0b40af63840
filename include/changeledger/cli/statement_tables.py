"""Checks whether the lake has the tables that a statement names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

from changeledger.lake import catalog
from changeledger.model.errors import ConfigError
from changeledger.model.misspelt import meant
from changeledger.read_only_sql.check import Statement
from changeledger.read_only_sql.tokens import cut


def require(tables: Iterable[tuple[str, str]]) -> None:
    """Raises ConfigError for a table that the lake does not have. An engine would print a stack trace."""
    for feed, table in tables:
        if not catalog.exists(f"{catalog.NAME}.{feed}.{table}"):
            refuse(feed, table)


def refuse(feed: str, table: str) -> NoReturn:
    """Raises ConfigError that says what is missing and what may have been meant."""
    require_feed(feed, table)
    near = meant(table, _tables(feed))
    raise ConfigError(
        f"the lake has no table {catalog.NAME}.{feed}.{table}",
        f"did you mean `{catalog.NAME}.{feed}.{near}`?"
        if near
        else f"see them: changeledger query 'SHOW TABLES IN {catalog.NAME}.{feed}'",
    )


def require_feed(feed: str, table: str = "") -> None:
    """Raises ConfigError for a feed without tables. `table`: the table that was asked for."""
    if _tables(feed):
        return
    near = meant(feed, catalog.namespaces())
    remedy = (
        f"`changeledger status {feed}` shows the state of the feed: its tables appear with its first release"
    )
    if near is not None and near != feed:
        name = ".".join(filter(None, (catalog.NAME, near, table)))
        remedy = f"did you mean `{name}`? If not: {remedy}"
    raise ConfigError(f"nothing of {catalog.NAME}.{feed} is published yet", remedy)


def named(statement: Statement) -> list[tuple[str, str]]:
    """Returns feed and table of each `lake.<feed>.<table>`, even if a branch or metadata table follows."""
    tokens = cut(statement.text).tokens
    tables = []
    for at in range(len(tokens) - 4):
        first, *others = tokens[at : at + 5]
        signs, names = others[::2], others[1::2]
        is_qualified = at > 0 and tokens[at - 1].text == "."
        if first.name == catalog.NAME and not is_qualified and all(sign.text == "." for sign in signs):
            feed, table = (name.name for name in names)
            if feed is not None and table is not None:
                tables.append((feed.lower(), table.lower()))
    return tables


def _tables(feed: str) -> list[str]:
    return [name.rpartition(".")[2] for name in catalog.tables(feed)]
