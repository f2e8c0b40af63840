"""Writes a log as Qlik change tables, `<table>__ct`, in PostgreSQL, the target of the task.

Header columns come first, as many as the task stores. By Qlik's page, B and U of an update share a
change_seq, a DELETE holds its key, and a mask counts all columns including the header's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

import psycopg
from psycopg import sql

from sourcelab.log import Change, Log, Transaction
from sourcelab.messages import lsn_text
from sourcelab.postgres import copy_rows, plain_url, postgres_type
from sourcelab.tables import Row, Table

HEADER = {
    "change_seq": "varchar(35)",
    "change_oper": "varchar(1)",
    "change_mask": "varchar(256)",
    "stream_position": "varchar(128)",
    "operation": "varchar(12)",
    "transaction_id": "varchar(32)",
    "timestamp": "timestamp(3)",
    "partition_name": "varchar(32)",
}
_USUAL = tuple(name for name in HEADER if name != "partition_name")
_WORDS = {"I": "INSERT", "U": "UPDATE", "D": "DELETE", "B": "BEFOREIMAGE"}
# The time in a change_seq is this much earlier than the commit.
_BEHIND = timedelta(seconds=1)


@dataclass(frozen=True)
class Task:
    """The settings of a Qlik task that determine its change tables."""

    prefix: str = "header__"
    header: tuple[str, ...] = _USUAL
    masks: Literal["text", "binary"] = "text"

    @property
    def columns(self) -> dict[str, str]:
        """PostgreSQL types of the header columns, by name."""
        kinds = HEADER | ({"change_mask": "bytea"} if self.masks == "binary" else {})
        return {self.prefix + name: kinds[name] for name in self.header}


_DEFAULT = Task()


def load(url: str, log: Log, to_tx: int | None = None, task: Task = _DEFAULT) -> None:
    """Creates the change tables and writes the transactions before `to_tx` (all if None)."""
    with psycopg.connect(plain_url(url)) as session:
        for schema in sorted({table.schema for table in log.tables}):
            session.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(schema)))
        for table in log.tables:
            kinds = task.columns | {c.name: postgres_type(c) for c in table.columns}
            columns = [sql.SQL("{} {}").format(sql.Identifier(n), sql.SQL(k)) for n, k in kinds.items()]
            name = sql.Identifier(table.schema, change_table(table))
            session.execute(sql.SQL("CREATE TABLE {} ({})").format(name, sql.SQL(", ").join(columns)))
    append(url, log, 0, len(log.transactions) if to_tx is None else to_tx, task)


def append(url: str, log: Log, from_tx: int, to_tx: int, task: Task = _DEFAULT) -> None:
    """Writes the transactions `[from_tx, to_tx)`. A second call writes them twice, as a resumed task may."""
    rows: dict[Table, list[tuple[Any, ...]]] = {table: [] for table in log.tables}
    for transaction in log.transactions[from_tx:to_tx]:
        for table, row in change_rows(transaction, task):
            rows[table].append(row)
    with psycopg.connect(plain_url(url)) as session:
        for table, of_table in rows.items():
            copy_rows(session, table.schema, change_table(table), of_table)


def change_table(table: Table) -> str:
    return f"{table.name}__ct"


def change_rows(transaction: Transaction, task: Task = _DEFAULT) -> Iterator[tuple[Table, tuple[Any, ...]]]:
    """Yields the rows of a transaction in the order of the log, with the table's columns."""
    for change in transaction.changes:
        for letter, row in _images(change):
            header = {
                "change_seq": change_seq(transaction, change),
                "change_oper": letter,
                "change_mask": _written(mask(change, letter, len(task.header)), task),
                "stream_position": _stream_position(transaction, change),
                "operation": _WORDS[letter],
                "transaction_id": transaction.begin_lsn.hex().upper().ljust(32),
                "timestamp": transaction.commit_time.replace(tzinfo=None),
                "partition_name": transaction.commit_time.strftime("%Y%m%dT000000_%Y%m%dT235959"),
            }
            captured = change.table.captured(row)
            cells = (captured[name] for name in change.table.names)
            yield change.table, (*(header[name] for name in task.header), *cells)


def change_seq(transaction: Transaction, change: Change) -> str:
    """Returns 16 digits of time, to hundredths of a second, and 19 digits of the change's number."""
    behind = transaction.commit_time - _BEHIND
    return f"{behind:%Y%m%d%H%M%S}{behind.microsecond // 10_000:02}{change.serial:019}"


def mask(change: Change, letter: str, header_columns: int) -> int:
    """Returns the bits of the changed columns as a number.

    The first column after the header has bit `header_columns`.
    """
    table = change.table
    named = {"I": table.names, "D": table.key, "U": change.changed, "B": ()}[letter]
    return sum(1 << (header_columns + at) for at, name in enumerate(table.names) if name in named)


def _written(bits: int, task: Task) -> str | bytes:
    """Encodes a mask without high zero bytes: as hex text of one number, or as bytes, lowest first."""
    width = (bits.bit_length() + 7) // 8
    return bits.to_bytes(width, "little") if task.masks == "binary" else bits.to_bytes(width).hex().upper()


def _stream_position(transaction: Transaction, change: Change) -> str:
    return f"{lsn_text(transaction.commit_lsn)}:{change.change_lsn.hex()}"


def _images(change: Change) -> Iterator[tuple[str, Row]]:
    if change.before is None:
        assert change.after is not None
        yield "I", change.after
    elif change.after is None:
        # A delete needs the key, and only the key is written.
        yield "D", dict.fromkeys(change.table.names) | {n: change.before[n] for n in change.table.key}
    else:
        unread = change.untouched_large if change.hides_large else {}
        yield "B", change.before | unread
        yield "U", change.after | unread
