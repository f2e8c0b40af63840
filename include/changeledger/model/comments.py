"""What the catalog says of published tables and their columns: where they come from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from changeledger.model.column_names import shown
from changeledger.model.contract import Column, Contract

# By the path of a column, or of a field in it.
ColumnComments = Mapping[tuple[str, ...], str]

# Of the columns that the ledger adds to rows.
OF_ROWS: Final[Mapping[str, str]] = {
    "_change_id": "The change that made the row what it is",
    "_operation": "What that change did: insert, update, delete, snapshot or truncate",
    "_sort_key": "That change's place in the total order of the feed",
    "_commit_lsn": "LSN of that change's commit; NULL where the source does not send it",
    "_committed_at": "When that change was committed, UTC",
    "_unknown_columns": "Columns whose value the source did not send, each with why; NULL in the row",
    "_window_id": "The run that wrote the row",
    "_valid_from": "When the version begins, UTC, inclusive",
    "_valid_to": "When the version ends, UTC, exclusive; NULL: it lasts",
    "_next_sort_key": "The place in order of the change that ends the version",
    "_is_deleted": "True: the row does not exist in this interval",
    "_previous_key": "The key from which the row was moved to this one",
    "_break": "How the change contradicts the version before it; NULL: it does not",
}
OF_CHANGES: Final[Mapping[str, str]] = {
    "change_id": "Stable id: the same change of the feed always has it",
    "operation": "insert, update, delete, snapshot or truncate",
    "key": "The row's key after the change; NULL for a truncate",
    "previous_key": "The key before, where the change moved the row",
    "before": "The row before the change",
    "after": "The row after the change",
    "before_unknown_columns": "Columns of before that the source did not send, each with why",
    "after_unknown_columns": "Columns of after that the source did not send, each with why",
    "changed": "Columns that the change gave another value; NULL: not known",
    "mask": "The change mask as received, hex",
    "commit_lsn": "LSN of the commit; NULL where the source does not send it",
    "change_lsn": "LSN of the change itself; NULL where the source does not send it",
    "event_serial_no": "The change's number in its transaction, where the source has one",
    "sort_key": "The change's place in the total order of the feed",
    "committed_at": "When the change was committed, UTC",
    "transaction_id": "The transaction, as the source names it",
    "flags": "Warnings, such as order_ambiguous or clock_suspect",
    "feed": "The feed that read the change",
    "dialect": "What wrote the record",
    "source_position": "Where the record stands in its source",
    "paired_source_position": "Where the record of the update's old row stands",
    "paired_change_id": "The other half of an update of a key",
    "window_id": "The run that wrote the change",
}
# By table, what its rows are.
_ROWS: Final = {"current": "Current rows", "history": "All versions of the rows", "changes": "All changes"}


class Comments(NamedTuple):
    """Of a table, and of its columns."""

    table: str
    columns: ColumnComments


def comments(kind: str, contract: Contract, database: str, feed: str, dialect: str) -> Comments:
    """`kind`: current, history or changes. `contract`: as in the source."""
    source = contract.source_table or contract.table
    said = f"{_ROWS[kind]} of {source} in {database}, as the feed {feed} ({dialect}) has them"
    if contract.dropped:
        said += f". Not published: {shown(contract.dropped)}"
    columns = [
        (c.published.name, _of_column(source, c)) for c in contract.columns if c.name not in contract.dropped
    ]
    if kind != "changes":
        return Comments(said, {**{(name,): text for name, text in OF_ROWS.items()},
                               **{(name,): text for name, text in columns}})  # fmt: skip
    return Comments(said, dict(_of_changes(contract.published, dict(columns))))


def _of_changes(published: Contract, columns: Mapping[str, str]) -> Iterator[tuple[tuple[str, ...], str]]:
    for name, text in OF_CHANGES.items():
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
