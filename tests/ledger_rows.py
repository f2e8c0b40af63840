"""A log's changes as ledger rows of a feed, for tests of the stages after the ledger."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

from changeledger.model import change
from changeledger.model.contract import Column, Contract
from sourcelab.log import Change, Log, Transaction
from sourcelab.tables import Row, Table


class Manner(NamedTuple):
    """How a capture tool writes changes."""

    # An update of a key is a delete and an insert.
    parts_key_updates: bool = False
    # The image of a delete holds only its key.
    key_only_deletes: bool = False
    # Columns that are never written, and columns that before images lack.
    unsent: frozenset[str] = frozenset()
    unsent_before: frozenset[str] = frozenset()
    # If False, an update has no before image, and a delete only its key.
    before_images: bool = True
    knows_lsn: bool = True
    # Its positions: commit LSNs with change LSNs beside them, only change LSNs, or another server's LSNs.
    position: Literal["commit", "change", "other"] = "commit"


PLAIN = Manner()


def contract_of(table: Table) -> Contract:
    return Contract(
        table=table.full_name,
        columns=tuple(
            Column(
                name=c.name,
                type=c.type,
                ordinal=c.ordinal,
                nullable=c.nullable,
                key_position=table.key.index(c.name) + 1 if c.name in table.key else 0,
            )
            for c in table.columns
        ),
    )


def rows(log: Log, table: Table, manner: Manner = PLAIN, feed: str = "feed") -> list[dict[str, Any]]:
    """Returns ledger rows, with some of the columns in `change.ledger_columns` of the table's contract."""
    return [
        _row(table, transaction, source_change, operation, serial, part, manner, feed)
        for serial, (transaction, source_change) in enumerate(changes(log, table))
        for part, operation in enumerate(operations(source_change, manner))
    ]


def changes(log: Log, table: Table) -> Iterator[tuple[Transaction, Change]]:
    for transaction in log.transactions:
        for source_change in sorted(transaction.changes, key=lambda c: c.change_lsn):
            if source_change.table is table:
                yield transaction, source_change


def operations(source_change: Change, manner: Manner) -> tuple[str, ...]:
    if source_change.operation != "key_update":
        return (source_change.operation,)
    return ("delete", "insert") if manner.parts_key_updates else ("update",)


def _row(
    table: Table,
    transaction: Transaction,
    source_change: Change,
    operation: str,
    serial: int,
    part: int,
    manner: Manner,
    feed: str,
) -> dict[str, Any]:
    finds = {"update", "delete"} if manner.before_images else {"delete"}
    before = source_change.before if operation in finds else None
    after = source_change.after if operation in {"update", "insert"} else None
    row = after if after is not None else before
    assert row is not None, "a change has an image"
    moved = operation == "update" and before is not None and table.key_of(before) != table.key_of(row)
    unknown = unknown_before(table, operation, manner)
    position = {
        "commit": transaction.commit_lsn,
        "change": source_change.change_lsn,
        "other": b"\xee" + transaction.commit_lsn[1:-1] + bytes([transaction.commit_lsn[-1] ^ 0xFF]),
    }[manner.position]
    lsn = position if manner.knows_lsn else None
    return {
        "change_id": f"{feed}-{serial}-{part}",
        "operation": operation,
        "key": table.key_of(row),
        "previous_key": table.key_of(before) if moved and before is not None else None,
        "before": _image(table, before, unknown),
        "after": _image(table, after, manner.unsent),
        "before_unknown_columns": _gaps(before, unknown),
        "after_unknown_columns": _gaps(after, manner.unsent),
        "changed": list(source_change.changed) if operation == "update" else None,
        "commit_lsn": lsn,
        "change_lsn": source_change.change_lsn if manner.position == "commit" else None,
        "sort_key": position + source_change.change_lsn + bytes([part]),
        "committed_at": transaction.commit_time,
        "feed": feed,
        "source_position": (table.full_name, 0, serial, None),
        "window_id": "run",
    }


def unknown_before(table: Table, operation: str, manner: Manner) -> frozenset[str]:
    """Returns the columns that the before image of such a change lacks."""
    key_only = manner.key_only_deletes or not manner.before_images
    if operation == "delete" and key_only:
        return frozenset(table.names) - set(table.key)
    return manner.unsent | manner.unsent_before


def _image(table: Table, row: Row | None, unknown: frozenset[str]) -> tuple[Any, ...] | None:
    return None if row is None else tuple(None if n in unknown else row[n] for n in table.names)


def _gaps(row: Row | None, unknown: frozenset[str]) -> dict[str, str] | None:
    return None if row is None or not unknown else dict.fromkeys(sorted(unknown), change.NOT_CAPTURED)


def apart(log: Log, number: int) -> Log:
    """Returns the log with its own LSNs, keys and serials, so that several logs can be joined."""
    shift = number * 10**6

    def lsn(reported: bytes) -> bytes:
        return bytes([number]) + reported[1:]

    def row(table: Table, reported: Row | None) -> Row | None:
        # Only numeric keys are shifted: GUIDs differ between logs anyway.
        moved = [c.name for c in table.columns if c.name in table.key and c.base in {"int", "bigint"}]
        return None if reported is None else {**reported, **{name: reported[name] + shift for name in moved}}

    def change_apart(source_change: Change) -> Change:
        images = {
            "before": row(source_change.table, source_change.before),
            "after": row(source_change.table, source_change.after),
        }
        return replace(
            source_change,
            **images,
            change_lsn=lsn(source_change.change_lsn),
            serial=source_change.serial + shift,
        )

    return replace(
        log,
        transactions=tuple(
            replace(t, commit_lsn=lsn(t.commit_lsn), changes=tuple(map(change_apart, t.changes)))
            for t in log.transactions
        ),
    )


def joined(logs: Sequence[Log]) -> Log:
    """Joins logs that are `apart`, one after the other."""
    return replace(logs[0], transactions=tuple(t for log in logs for t in log.transactions))
