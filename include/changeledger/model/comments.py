"""Comments of published tables and columns in the catalog, which say where the data comes from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from changeledger.model import change
from changeledger.model.column_names import shown
from changeledger.model.contract import Column, Contract

# Comments by the path of a column, or of a field in it.
ColumnComments = Mapping[tuple[str, ...], str]

# What the rows are, by kind of table.
_ROWS: Final = {"current": "Current rows", "history": "All versions of the rows", "changes": "All changes"}


class Comments(NamedTuple):
    """The comments of a table and of its columns."""

    table: str
    columns: ColumnComments


def comments(kind: str, contract: Contract, database: str, feed: str, dialect: str) -> Comments:
    """Returns the comments of a published table.

    `kind`: current, history or changes. `contract`: the contract with the source's columns.
    """
    source = contract.source_table or contract.table
    said = f"{_ROWS[kind]} of {source} in {database}, as the feed {feed} ({dialect}) has them"
    if contract.dropped:
        said += f". Not published: {shown(contract.dropped)}"
    columns = [
        (c.published.name, _of_column(source, c)) for c in contract.columns if c.name not in contract.dropped
    ]
    if kind != "changes":
        return Comments(said, {**{(name,): text for name, text in change.ROW_COMMENTS.items()},
                               **{(name,): text for name, text in columns}})  # fmt: skip
    return Comments(said, dict(_of_changes(contract.published, dict(columns))))


def _of_changes(published: Contract, columns: Mapping[str, str]) -> Iterator[tuple[tuple[str, ...], str]]:
    for name, text in change.LEDGER_COMMENTS.items():
        yield (name,), text
    for struct in ("before", "after"):
        for name, text in columns.items():
            yield (struct, name), text
    for struct in ("key", "previous_key"):
        for column in published.key:
            yield (struct, column.name), columns[column.name]


def _of_column(source: str, column: Column) -> str:
    said = f"{source}.{shown([column.name])}, {column.type}"
    if column.key_position:
        said += ", key"
    return said if column.publish is None else f"{said}; published with {column.publish.words}"
