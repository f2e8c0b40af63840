"""The canonical change: the one form that all dialects share after normalize.

One Iceberg table per source table and feed holds the ledger of changes. Types are given as Spark DDL, so that
this module does not need Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from changeledger.model.contract import Column, Contract

# What a change did.
INSERT: Final = "insert"
UPDATE: Final = "update"
DELETE: Final = "delete"
SNAPSHOT: Final = "snapshot"
TRUNCATE: Final = "truncate"

# What became of a raw record. `change` and `paired` are counted in the ledger itself (its
# `source_position` and `paired_source_position`); the others are rows of the feed's `dispositions` table.
CHANGE: Final = "change"
PAIRED: Final = "paired"
DUPLICATE: Final = "duplicate"
TOMBSTONE: Final = "tombstone"
CONTROL: Final = "control"
PENDING: Final = "pending"
QUARANTINED: Final = "quarantined"
DISPOSITIONS: Final = (CHANGE, PAIRED, DUPLICATE, TOMBSTONE, CONTROL, PENDING, QUARANTINED)

# Why the value of a cell in an image is unknown.
UNAVAILABLE: Final = "unavailable"
NOT_CAPTURED: Final = "not_captured"

# Warnings that travel with a change.
ORDER_AMBIGUOUS: Final = "order_ambiguous"
MASK_DISAGREES: Final = "mask_disagrees"
POSITION_UNKNOWN: Final = "position_unknown"
BEFORE_UNKNOWN: Final = "before_unknown"
KEY_CHANGED: Final = "key_changed"
# An update whose mask names a key column, without the old key: the row under the old key stays.
OLD_KEY_UNKNOWN: Final = "old_key_unknown"
# The source does not have the commit time: another clock stands in for it.
CLOCK_SUSPECT: Final = "clock_suspect"
# Not from the source: a person had the run apply a repair of what a proof had found wrong.
REPAIRED: Final = "repaired"

# The reason of a quarantined before row whose after row is not in the window.
BEFORE_WITHOUT_AFTER: Final = "before_without_after"

# The reason of a duplicate that repeats a whole change, or one half of an update.
DELIVERED_AGAIN: Final = "delivered_again"

# The reason of records whose writer has columns that the table's contract rules out.
INCOMPATIBLE_SHAPE: Final = "incompatible_shape"

# A raw record's position in its source: topic, partition and offset, or the change table and the row's
# position in it (start LSN, command id, sequence value, operation). If several rows share a position,
# `offset` numbers all but the first.
RECORD_TYPE: Final = "struct<source:string,partition:int,offset:bigint,row:binary>"

_MAP: Final = "map<string,string>"

# Columns of the ledger: name, type, and comment in the catalog.
_LEDGER: Final = (
    ("change_id", "string", "Stable id: the same change of the feed always has it"),
    ("operation", "string", "insert, update, delete, snapshot or truncate"),
    ("key", "<key>", "The row's key after the change; NULL for a truncate"),
    ("previous_key", "<key>", "The key before, where the change moved the row"),
    ("before", "<image>", "The row before the change"),
    ("after", "<image>", "The row after the change"),
    ("before_unknown_columns", _MAP, "Columns of before that the source did not send, each with why"),
    ("after_unknown_columns", _MAP, "Columns of after that the source did not send, each with why"),
    ("changed", "array<string>", "Columns that the change gave another value; NULL: not known"),
    ("mask", "string", "The change mask as received, hex"),
    ("commit_lsn", "binary", "LSN of the commit; NULL where the source does not send it"),
    ("change_lsn", "binary", "LSN of the change itself; NULL where the source does not send it"),
    ("event_serial_no", "bigint", "The change's number in its transaction, where the source has one"),
    ("sort_key", "binary", "The change's place in the total order of the feed"),
    ("committed_at", "timestamp", "When the change was committed, UTC"),
    ("transaction_id", "string", "The transaction, as the source names it"),
    ("flags", "array<string>", "Warnings, such as order_ambiguous or clock_suspect"),
    ("feed", "string", "The feed that read the change"),
    ("dialect", "string", "What wrote the record"),
    ("source_position", RECORD_TYPE, "Where the record stands in its source"),
    ("paired_source_position", RECORD_TYPE, "Where the record of the update's old row stands"),
    ("paired_change_id", "string", "The other half of an update of a key"),
    ("window_id", "string", "The run that wrote the change"),
)
LEDGER_COLUMNS: Final = tuple((name, kind) for name, kind, _ in _LEDGER)
LEDGER_COMMENTS: Final = {name: text for name, _, text in _LEDGER}

# Reasons of the disposition `control`: a change of a table that the feed does not list, or that the run was
# not asked for. The detail is the table's name in the record.
TABLE_NOT_IN_FEED: Final = "table_not_in_feed"
TABLE_NOT_CHOSEN: Final = "table_not_chosen"

DISPOSITION_COLUMNS: Final[tuple[tuple[str, str], ...]] = (
    ("window_id", "string"),
    ("table", "string"),
    ("source_position", RECORD_TYPE),
    ("disposition", "string"),
    ("reason", "string"),
    ("detail", "string"),
    # For a record that repeats a change: the change's commit LSN, so that it is searched for only there.
    ("commit_lsn", "binary"),
)

# In a row read from a source table: array<string> of the columns whose values do not fit their types.
UNFIT_COLUMNS: Final = "_unknown_columns"

# A quarantined record as received, so that it can be shown and replayed.
QUARANTINE_COLUMNS: Final[tuple[tuple[str, str], ...]] = (
    ("window_id", "string"),
    ("table", "string"),
    ("source_position", RECORD_TYPE),
    ("reason", "string"),
    ("detail", "string"),
    ("raw_key", "binary"),
    ("raw_value", "binary"),
    ("raw_headers", "array<struct<key:string,value:binary>>"),
)


# Kafka messages as received.
MESSAGE_COLUMNS: Final[tuple[tuple[str, str], ...]] = (
    ("topic", "string"),
    ("partition", "int"),
    ("offset", "bigint"),
    ("timestamp", "timestamp"),
    ("key", "binary"),
    ("value", "binary"),
    ("headers", "array<struct<key:string,value:binary>>"),
)
RAW_MESSAGE_COLUMNS: Final = (("window_id", "string"), *MESSAGE_COLUMNS)
# Partition transforms by column.
BY_WINDOW: Final = {"window_id": "identity"}
RAW_PARTITIONS: Final = {**BY_WINDOW, "topic": "identity"}


# Records as received that wait for the rest of a split message, or for the metadata with their columns. Each
# run takes up all of them again, so the table has the state of the last run.
PENDING_COLUMNS: Final[tuple[tuple[str, str], ...]] = (
    *MESSAGE_COLUMNS,
    # The end of the window that read the record. What the record waits for may be in that window, too.
    ("since", "timestamp"),
    ("table", "string"),
    ("reason", "string"),
)


# How a change breaks the chain of its key (`reconcile.image_chain`), and which change it should have
# followed.
BREAK_TYPE: Final = "struct<kind:string,columns:array<string>,previous_change_id:string>"

# Changes whose before image does not equal the row as the previous change left it.
BREAK_COLUMNS: Final[tuple[tuple[str, str], ...]] = (
    # The run that first found the break.
    ("window_id", "string"),
    ("table", "string"),
    # JSON. For a key update, the key whose chain is broken.
    ("key", "string"),
    ("change_id", "string"),
    ("operation", "string"),
    ("sort_key", "binary"),
    ("commit_lsn", "binary"),
    ("committed_at", "timestamp"),
    ("previous_change_id", "string"),
    ("previous_sort_key", "binary"),
    ("kind", "string"),
    # The columns that differ; NULL if the row should not have existed, or should have.
    ("columns", "array<string>"),
    # The row as the previous change left it, and as this change found it: text by column. An unknown cell is
    # the word in brackets.
    ("known", "map<string,string>"),
    ("before", "map<string,string>"),
    ("flags", "array<string>"),
    ("source_position", RECORD_TYPE),
)


# Records that somebody has asked to be read again. A run takes all of them and leaves none.
REPLAY_COLUMNS: Final[tuple[tuple[str, str], ...]] = (
    # The run that read the record.
    ("window_id", "string"),
    ("table", "string"),
    ("source_position", RECORD_TYPE),
)


# Columns that the ledger adds to current rows: name, type, and comment in the catalog.
_CURRENT: Final = (
    ("_change_id", "string", "The change that made the row what it is"),
    ("_operation", "string", "What that change did: insert, update, delete, snapshot or truncate"),
    ("_sort_key", "binary", "That change's place in the total order of the feed"),
    ("_commit_lsn", "binary", "LSN of that change's commit; NULL where the source does not send it"),
    ("_committed_at", "timestamp", "When that change was committed, UTC"),
    # Cells whose value was never known, or not since the row appeared. The cell itself is NULL.
    ("_unknown_columns", _MAP, "Columns whose value the source did not send, each with why; NULL in the row"),
    ("_window_id", "string", "The run that wrote the row"),
)
# Columns that follow in rows of history.
_INTERVAL: Final = (
    ("_valid_from", "timestamp", "When the version begins, UTC, inclusive"),
    ("_valid_to", "timestamp", "When the version ends, UTC, exclusive; NULL: it lasts"),
    ("_next_sort_key", "binary", "The place in order of the change that ends the version"),
    ("_is_deleted", "boolean", "True: the row does not exist in this interval"),
    ("_previous_key", "<key>", "The key from which the row was moved to this one"),
    # NULL if the change found the row as the previous change had left it.
    ("_break", BREAK_TYPE, "How the change contradicts the version before it; NULL: it does not"),
)
ROW_COMMENTS: Final = {name: text for name, _, text in (*_CURRENT, *_INTERVAL)}


def quoted(name: str) -> str:
    """Quotes a name as an identifier of Spark SQL."""
    return "`" + name.replace("`", "``") + "`"


def literal(value: str) -> str:
    """Quotes a text as a literal of Spark SQL."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _struct(columns: Sequence[Column]) -> str:
    return "struct<" + ",".join(f"{quoted(c.name)}:{c.spark_type}" for c in columns) + ">"


def ledger_columns(contract: Contract) -> list[tuple[str, str]]:
    """Returns columns and Spark types of the table's ledger."""
    shapes = {"<key>": _struct(contract.key), "<image>": _struct(contract.columns)}
    return [(name, shapes.get(kind, kind)) for name, kind in LEDGER_COLUMNS]


def current_columns(contract: Contract) -> list[tuple[str, str]]:
    """Returns columns and Spark types of the current rows: one row for each key that exists."""
    return [(c.name, c.spark_type) for c in contract.columns] + [(name, kind) for name, kind, _ in _CURRENT]


# Keeps open intervals apart from closed ones: the one bucket has every value but NULL. See ADR 0023.
HISTORY_PARTITIONS: Final = {"_valid_to": "bucket[1]"}


def history_columns(contract: Contract) -> list[tuple[str, str]]:
    """Returns columns and Spark types of the history: intervals `[_valid_from, _valid_to)` per key.

    A deleted key has an open interval with `_is_deleted`. It says which change deleted the row, and keeps
    the position, so that a late older change does not bring the row back.
    """
    shapes = {"<key>": _struct(contract.key)}
    return [*current_columns(contract), *((name, shapes.get(kind, kind)) for name, kind, _ in _INTERVAL)]
