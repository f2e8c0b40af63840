"""Writes a log as the Kafka messages of Qlik Replicate (Kafka target, JSON)."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from sourcelab.log import Change, Log, Transaction
from sourcelab.messages import Message, lsn_text, milliseconds
from sourcelab.qlik_messages_values import is_lob, table_column, wire_value
from sourcelab.tables import Row, Table

# Milliseconds from the commit until the task applies a change.
_LAG_MS = 1200
_OPERATIONS = {"insert": "INSERT", "update": "UPDATE", "key_update": "UPDATE", "delete": "DELETE"}
_VERSION = 1


def messages(  # noqa: PLR0913 - the settings of the task, all by name
    log: Log,
    *,
    envelope: bool,
    metadata_topic: str | None = None,
    snapshot: bool,
    from_tx: int = 0,
    to_tx: int | None = None,
    prefix: str = "qlik",
) -> Iterator[Message]:
    """Yields the messages of the transactions `[from_tx, to_tx)`.

    Each table has the topic `<prefix>.<schema>.<table>`.

    - `envelope`: wraps each message.
    - `metadata_topic`: the topic of the tables' metadata; if None, the data's topics. The task writes
      metadata when it begins, so only from transaction 0.
    - `snapshot`: writes the first transaction as the full load instead of as inserts.
    """
    writer = _Writer(prefix, envelope, metadata_topic)
    if from_tx == 0:
        for table in log.tables:
            yield writer.metadata(table, log.transactions[0].begin_time)
    for at, transaction in enumerate(log.transactions[from_tx:to_tx], start=from_tx):
        if snapshot and at == 0:
            yield from writer.full_load(transaction)
        else:
            yield from writer.changes(transaction)


def schema_id(table: Table) -> str:
    """Returns the id of the only version of the table's schema."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{table.full_name}/{_VERSION}"))


def mask(table: Table, columns: Iterable[str]) -> str:
    """Returns hex digits of one number in whole bytes: ordinal n is bit n - 1; the last digit is lowest."""
    wanted = set(columns)
    number = sum(1 << (c.ordinal - 1) for c in table.columns if c.name in wanted)
    digits = f"{number:X}"
    return digits.zfill(len(digits) + len(digits) % 2)


def change_mask(change: Change) -> str:
    """Returns the mask of a change.

    An insert sets the bits of all columns, a delete those of the key, an update those that it changed. Large
    objects are never set.
    """
    table = change.table
    names = {"insert": table.names, "delete": table.key}.get(change.operation, change.changed)
    lobs = {c.name for c in table.columns if is_lob(c)}
    return mask(table, (name for name in names if name not in lobs))


class _Writer:
    def __init__(self, prefix: str, envelope: bool, metadata_topic: str | None) -> None:
        self._prefix = prefix
        self._envelope = envelope
        self._metadata_topic = metadata_topic

    def metadata(self, table: Table, since: datetime) -> Message:
        keys = {name: at for at, name in enumerate(table.key, start=1)}
        payload = {
            "schemaId": schema_id(table),
            "lineage": {
                "server": "replicate.example",
                "task": "shop",
                "schema": table.schema,
                "table": table.name,
                "tableVersion": _VERSION,
                "timestamp": _text(since),
            },
            "tableStructure": {
                "tableColumns": {
                    c.name: table_column(c) | {"primaryKeyPosition": keys.get(c.name, 0)}
                    for c in table.columns
                }
            },
            "dataSchema": None,
        }
        topic = self._metadata_topic or self._topic(table)
        key = _json({"schemaId": schema_id(table)})
        return Message(topic, key, self._wrapped("MD", payload), (), milliseconds(since))

    def full_load(self, transaction: Transaction) -> Iterator[Message]:
        """Yields the rows without order and time: their headers have only the operation."""
        for change in transaction.changes:
            headers = dict.fromkeys(_CHANGE_HEADERS) | {"operation": "REFRESH"}
            assert change.after is not None
            yield self._data(change.table, headers, change.after, None, transaction)

    def changes(self, transaction: Transaction) -> Iterator[Message]:
        """Yields a transaction's changes. A key update is one UPDATE whose `beforeData` has the old key."""
        for counter, change in enumerate(transaction.changes, start=1):
            headers = {
                "operation": _OPERATIONS[change.operation],
                "changeSequence": _change_sequence(transaction, change),
                "timestamp": _text(transaction.commit_time),
                "streamPosition": lsn_text(transaction.commit_lsn),
                "transactionId": transaction.begin_lsn.hex().upper().zfill(32),
                "changeMask": change_mask(change),
                "columnMask": mask(change.table, change.table.names),
                "transactionEventCounter": counter,
                "transactionLastEvent": counter == len(transaction.changes),
            }
            row = change.after if change.after is not None else _key_only(change)
            before = _without_lobs(change) if change.operation in {"update", "key_update"} else None
            yield self._data(change.table, headers, row, before, transaction)

    def _data(
        self, table: Table, headers: dict[str, Any], row: Row, before: Row | None, transaction: Transaction
    ) -> Message:
        data = _wire(table, row)
        payload = {
            "schema": table.schema,
            "table": table.name,
            "headers": headers | {"externalSchemaId": schema_id(table)},
            "data": data,
            "beforeData": None if before is None else _wire(table, before),
        }
        seen = milliseconds(transaction.commit_time) + _LAG_MS
        key = _json({name: data[name] for name in table.key})
        return Message(self._topic(table), key, self._wrapped("DT", payload), (), seen)

    def _topic(self, table: Table) -> str:
        return f"{self._prefix}.{table.full_name}"

    def _wrapped(self, kind: str, payload: dict[str, Any]) -> bytes:
        if not self._envelope:
            return _json(payload)
        empty = {"headers": None, "messageSchemaId": None, "messageSchema": None}
        return _json({"magic": "atMSG", "type": kind, **empty, "message": payload})


_CHANGE_HEADERS = (
    "operation", "changeSequence", "timestamp", "streamPosition", "transactionId", "changeMask", "columnMask",
    "transactionEventCounter", "transactionLastEvent",
)  # fmt: skip


def _key_only(change: Change) -> Row:
    """Returns the key of a deleted row; the other columns are NULL and have no meaning."""
    assert change.before is not None
    return {n: v if n in change.table.key else None for n, v in change.before.items()}


def _without_lobs(change: Change) -> Row:
    """Returns the old row without large objects, which SQL Server's log does not have."""
    assert change.before is not None
    lobs = {c.name for c in change.table.columns if is_lob(c)}
    return {n: None if n in lobs else v for n, v in change.before.items()}


def _change_sequence(transaction: Transaction, change: Change) -> str:
    """Returns 35 digits: the time to a hundredth of a second, and a counter over the whole task."""
    time = transaction.commit_time
    return f"{time:%Y%m%d%H%M%S}{time.microsecond // 10_000:02}{change.serial:019}"


def _wire(table: Table, row: Row) -> dict[str, Any]:
    return {c.name: wire_value(c, row[c.name]) for c in table.columns}


def _text(instant: datetime) -> str:
    """Formats UTC without a zone."""
    return instant.replace(tzinfo=None).isoformat(timespec="milliseconds")


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
