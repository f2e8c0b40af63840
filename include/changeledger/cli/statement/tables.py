"""The lake's tables that a statement names: are they there?"""

from __future__ import annotations

from changeledger.cli.statement.check import Statement
from changeledger.cli.statement.tokens import cut
from changeledger.model.errors import ConfigError
from changeledger.model.misspelt import meant
from changeledger.storage import catalog


def require(statement: Statement) -> None:
    """Raises ConfigError for a table that the lake does not have: an engine would say it with its stack."""
    for feed, table in _named(statement):
        name = f"{catalog.NAME}.{feed}.{table}"
        if catalog.exists(name):
            continue
        tables = [known.rpartition(".")[2] for known in catalog.tables(feed)]
        if not tables:
            near = meant(feed, catalog.namespaces())
            remedy = (
                f"`changeledger status {feed}` says how the feed stands: tables come with its first release"
            )
            if near is not None and near != feed:
                remedy = f"did you mean `{catalog.NAME}.{near}.{table}`? If not: {remedy}"
            raise ConfigError(f"nothing is published yet of {catalog.NAME}.{feed}", remedy)
        near = meant(table, tables)
        raise ConfigError(
            f"the lake has no table {name}",
            f"did you mean `{catalog.NAME}.{feed}.{near}`?"
            if near
            else f"see them: changeledger query 'SHOW TABLES IN {catalog.NAME}.{feed}'",
        )


def _named(statement: Statement) -> list[tuple[str, str]]:
    """Feed and table of each `lake.<feed>.<table>`, with whatever follows: a branch, or a metadata table."""
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
