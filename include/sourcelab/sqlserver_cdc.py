"""Writes a log as SQL Server's change tables, `cdc.<capture_instance>_CT`, and their metadata.

They are created in PostgreSQL under SQL Server's names. Binary LSNs keep their order as `bytea`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from zoneinfo import ZoneInfo

import psycopg
from psycopg import sql

from sourcelab.log import Change, Log, Transaction
from sourcelab.postgres import copy_rows, plain_url, postgres_type
from sourcelab.tables import Column, Row, Table

DELETE, INSERT, UPDATE_BEFORE, UPDATE_AFTER = 1, 2, 3, 4

_HEAD = ("__$start_lsn", "__$end_lsn", "__$seqval", "__$operation", "__$update_mask")
_COMMAND = "__$command_id"
_SCHEMA_IDS = {"dbo": 1, "sales": 5}
# The capture job writes a mark without a transaction after every this many transactions.
_DUMMY_EVERY = 5

_METADATA = """
CREATE SCHEMA cdc; CREATE SCHEMA sys;
CREATE TABLE sys.schemas (schema_id int PRIMARY KEY, name text);
CREATE TABLE sys.tables (object_id int PRIMARY KEY, name text, schema_id int);
CREATE TABLE sys.columns (object_id int, name text, column_id int, max_length smallint, precision smallint,
    scale smallint, is_nullable boolean);
CREATE TABLE cdc.change_tables (object_id int PRIMARY KEY, source_object_id int, capture_instance text,
    start_lsn bytea, end_lsn bytea, supports_net_changes boolean, has_drop_pending boolean, role_name text,
    index_name text, create_date timestamp);
CREATE TABLE cdc.captured_columns (object_id int, column_name text, column_id int, column_type text,
    column_ordinal int, is_computed boolean);
CREATE TABLE cdc.index_columns (object_id int, column_name text, index_ordinal int, column_id int);
CREATE TABLE cdc.lsn_time_mapping (start_lsn bytea PRIMARY KEY, tran_begin_time timestamp,
    tran_end_time timestamp, tran_id bytea, tran_begin_lsn bytea);
CREATE TABLE cdc.ddl_history (source_object_id int, object_id int, required_column_update boolean,
    ddl_command text, ddl_lsn bytea, ddl_time timestamp);
"""

# max_length (bytes), precision and scale of the types without arguments, as in sys.columns.
_SIZES = {
    "bit": (1, 1, 0),
    "tinyint": (1, 3, 0),
    "smallint": (2, 5, 0),
    "int": (4, 10, 0),
    "bigint": (8, 19, 0),
    "real": (4, 24, 0),
    "float": (8, 53, 0),
    "money": (8, 19, 4),
    "date": (3, 10, 0),
    "datetime": (8, 23, 3),
    "uniqueidentifier": (16, 0, 0),
    "xml": (-1, 0, 0),
}
# The largest precision, and the bytes that store it.
_DECIMAL_SIZES = ((9, 5), (19, 9), (28, 13), (38, 17))
# For types with fraction digits: bytes at full precision, and characters before the decimal point.
_CLOCKS = {"time": (5, 8), "datetime2": (8, 19), "datetimeoffset": (10, 26)}


def load(url: str, log: Log, to_tx: int | None = None, zone: str = "UTC") -> None:
    """Creates the change tables and writes the transactions before `to_tx` (all if None)."""
    with psycopg.connect(plain_url(url)) as session:
        session.execute(_METADATA)
        for at, table in enumerate(log.tables):
            _describe(session, table, at, log, zone)
        copy_rows(session, "sys", "schemas", [(number, name) for name, number in _SCHEMA_IDS.items()])
    append(url, log, 0, len(log.transactions) if to_tx is None else to_tx, zone)


def append(url: str, log: Log, from_tx: int, to_tx: int, zone: str = "UTC") -> None:
    """Writes the transactions `[from_tx, to_tx)`. `zone`: the time zone of the server's clock."""
    with psycopg.connect(plain_url(url)) as session:
        _copy_changes(session, log, from_tx, to_tx)
        copy_rows(session, "cdc", "lsn_time_mapping", list(time_rows(log, from_tx, to_tx, zone)))


def append_rows(url: str, log: Log, from_tx: int, to_tx: int) -> None:
    """Writes only the change rows of the transactions; a second call duplicates them."""
    with psycopg.connect(plain_url(url)) as session:
        _copy_changes(session, log, from_tx, to_tx)


def _copy_changes(session: psycopg.Connection, log: Log, from_tx: int, to_tx: int) -> None:
    rows: dict[str, list[tuple[Any, ...]]] = {f"{t.capture_instance}_CT": [] for t in log.tables}
    for transaction in log.transactions[from_tx:to_tx]:
        for table, row in change_rows(transaction):
            rows[f"{table.capture_instance}_CT"].append(row)
    for name, of_table in rows.items():
        copy_rows(session, "cdc", name, of_table)


def columns(table: Table) -> tuple[str, ...]:
    """Returns the columns of the change table, in the order of `change_rows`."""
    return (*_HEAD, *table.names, _COMMAND)


def change_rows(transaction: Transaction) -> Iterator[tuple[Table, tuple[Any, ...]]]:
    """Yields the `_CT` rows of a transaction, in the order of the log."""
    for change in transaction.changes:
        for operation, image in _images(change):
            row = change.table.captured(image)
            yield (
                change.table,
                (
                    transaction.commit_lsn,
                    None,
                    change.change_lsn,
                    operation,
                    mask(change),
                    *(row[name] for name in change.table.names),
                    change.command_id,
                ),
            )


def time_rows(log: Log, from_tx: int, to_tx: int, zone: str = "UTC") -> Iterator[tuple[Any, ...]]:
    """Yields the rows of `cdc.lsn_time_mapping`: one per transaction, and dummies between some of them."""
    local = ZoneInfo(zone)
    for at, transaction in enumerate(log.transactions[from_tx:to_tx], start=from_tx):
        begin = transaction.begin_time.astimezone(local).replace(tzinfo=None)
        end = transaction.commit_time.astimezone(local).replace(tzinfo=None)
        number = (at + 1).to_bytes(6)
        yield transaction.commit_lsn, begin, end, number, transaction.begin_lsn
        if at % _DUMMY_EVERY == 0 and at + 1 < len(log.transactions):
            yield log.transactions[at + 1].begin_lsn, end, end, b"\x00", b"\x00" * 10


def mask(change: Change) -> bytes:
    """Returns `__$update_mask`: a column's bit is its ordinal - 1, counted from the end of the LAST byte.

    Inserts and deletes, and so both halves of a key update, set the bits of all captured columns.
    """
    named = change.changed if change.operation == "update" else change.table.names
    bits = sum(1 << (c.ordinal - 1) for c in change.table.columns if c.name in named)
    return bits.to_bytes((max(c.ordinal for c in change.table.columns) + 7) // 8)


def _images(change: Change) -> Iterator[tuple[int, Row]]:
    if change.operation == "update":
        assert change.before is not None
        assert change.after is not None
        unread = change.untouched_large
        yield UPDATE_BEFORE, change.before | unread
        yield UPDATE_AFTER, change.after | (unread if change.hides_large else {})
        return
    if change.before is not None:
        yield DELETE, change.before
    if change.after is not None:
        yield INSERT, change.after


def _describe(session: psycopg.Connection, table: Table, at: int, log: Log, zone: str) -> None:
    """Creates the change table of the table at index `at`, and metadata. Its capture began with the log."""
    source, change_table = 1000 + at, 2000 + at
    first = log.transactions[0]
    since = first.begin_time.astimezone(ZoneInfo(zone)).replace(tzinfo=None)
    name = sql.Identifier("cdc", f"{table.capture_instance}_CT")
    head = ("bytea NOT NULL", "bytea", "bytea NOT NULL", "int NOT NULL", "bytea")
    kinds = [*zip(_HEAD, head, strict=True), *((c.name, postgres_type(c)) for c in table.columns)]
    columns = [
        sql.SQL("{} {}").format(sql.Identifier(n), sql.SQL(kind)) for n, kind in [*kinds, (_COMMAND, "int")]
    ]
    session.execute(sql.SQL("CREATE TABLE {} ({})").format(name, sql.SQL(", ").join(columns)))
    session.execute(sql.SQL("CREATE INDEX ON {} ({})").format(name, sql.Identifier(_HEAD[0])))
    capture = (change_table, source, table.capture_instance, first.begin_lsn, None, True, False, None, None)
    copy_rows(session, "cdc", "change_tables", [(*capture, since)])
    copy_rows(session, "sys", "tables", [(source, table.name, _SCHEMA_IDS[table.schema])])
    captured = [(change_table, c.name, c.ordinal, c.base, c.ordinal, c.computed) for c in table.columns]
    copy_rows(session, "cdc", "captured_columns", captured)
    # Captured columns accept NULL in a change table, even if the source column does not.
    sizes = [(change_table, c.name, c.ordinal, *_size(c), True) for c in table.columns]
    copy_rows(session, "sys", "columns", sizes)
    ordinals = {c.name: c.ordinal for c in table.columns}
    keys = [(change_table, key, at, ordinals[key]) for at, key in enumerate(table.key, start=1)]
    copy_rows(session, "cdc", "index_columns", keys)


def _size(column: Column) -> tuple[int, int, int]:
    """Returns max_length, precision and scale, as in sys.columns."""
    if column.base in _CLOCKS:
        (digits,) = column.arguments
        full, width = _CLOCKS[column.base]
        return full - (digits < 5) - (digits < 3), width + (digits + 1 if digits else 0), digits
    if column.base == "decimal":
        precision, scale = column.arguments
        return (
            next(size for most, size in _DECIMAL_SIZES if precision <= most),
            precision,
            scale,
        )
    if column.arguments:
        (length,) = column.arguments
        return (length * 2 if column.base == "nvarchar" and not column.is_max else length), 0, 0
    return _SIZES[column.base]
