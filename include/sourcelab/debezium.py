"""Writes a log as the Kafka messages of Debezium's SQL Server connector (3.1, JSON converter)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from sourcelab.debezium_schema import HEARTBEAT_KEY, HEARTBEAT_VALUE, envelope_schema, key_schema, wire_value
from sourcelab.log import Change, Log, Transaction
from sourcelab.messages import Message, lsn_text, milliseconds
from sourcelab.tables import DATABASE, Row, Table

PLACEHOLDER = "__debezium_unavailable_value"

_HEARTBEAT_EVERY = 10
# Milliseconds from the commit until the connector sees a change.
_LAG_MS = 730


def messages(  # noqa: PLR0913 - the settings of the connector, all by name
    log: Log,
    *,
    schemas: bool,
    snapshot: bool,
    tombstones: bool = True,
    heartbeats: bool = True,
    placeholders: bool = True,
    prefix: str = DATABASE,
    from_tx: int = 0,
    to_tx: int | None = None,
) -> Iterator[Message]:
    """Yields the messages of the transactions `[from_tx, to_tx)`.

    - `schemas`: adds the schema block.
    - `snapshot`: writes the first transaction as the initial snapshot instead of as inserts.
    - `placeholders`: if False, a large value that an update did not change is a plain NULL, as connectors
      before 3.6 write it.
    """
    writer = _Writer(log, prefix, schemas, tombstones, PLACEHOLDER if placeholders else None)
    for at, transaction in enumerate(log.transactions[from_tx:to_tx], start=from_tx):
        if snapshot and at == 0:
            yield from writer.snapshot(transaction)
        else:
            for change in transaction.changes:
                yield from writer.streamed(transaction, change)
        if heartbeats and at % _HEARTBEAT_EVERY == 0:
            yield writer.heartbeat(transaction)


class _Writer:
    def __init__(
        self, log: Log, prefix: str, schemas: bool, tombstones: bool, unread: str | None = PLACEHOLDER
    ) -> None:
        self._prefix = prefix
        self._unread = unread
        self._schemas = schemas
        self._tombstones = tombstones
        self._topics = {t.full_name: f"{prefix}.{DATABASE}.{t.full_name}" for t in log.tables}
        # Kept as text, since the same block precedes every message of a table.
        self._keys = {t.full_name: _json(key_schema(t, self._topics[t.full_name])) for t in log.tables}
        self._values = {t.full_name: _json(envelope_schema(t, self._topics[t.full_name])) for t in log.tables}

    def snapshot(self, transaction: Transaction) -> Iterator[Message]:
        """Yields the rows by table, marking the first and last row of each table and of the snapshot."""
        changes = transaction.changes
        for at, change in enumerate(changes):
            begins = at == 0 or changes[at - 1].table != change.table
            ends = at + 1 == len(changes) or changes[at + 1].table != change.table
            marker = "first_in_data_collection" if begins else "last_in_data_collection" if ends else "true"
            marker = "first" if at == 0 else "last" if at + 1 == len(changes) else marker
            source = self._source(transaction, change.table, marker, None, None)
            yield self._message(change.table, "r", None, change.after, source)

    def streamed(self, transaction: Transaction, change: Change) -> Iterator[Message]:
        """Yields the messages of a change.

        A key update becomes `d`, tombstone and `c`. Its halves share both LSNs and differ in the serial
        number.
        """
        table, lsn = change.table, change.change_lsn
        before, after = (row and table.captured(row) for row in (change.before, change.after))
        if change.operation == "update":
            assert before is not None
            assert after is not None
            # The connector has the value of an unchanged large column in neither image.
            large = [c.name for c in table.columns if c.is_max and c.name not in change.changed]
            unread = dict.fromkeys(large, self._unread)
            source = self._source(transaction, table, "false", lsn, 2)
            yield self._message(table, "u", before | unread, after | unread, source)
            return
        if before is not None:
            deleted = self._message(
                table, "d", before, None, self._source(transaction, table, "false", lsn, 1)
            )
            yield deleted
            if self._tombstones:
                yield deleted._replace(value=None)
        if after is not None:
            serial = 2 if change.operation == "key_update" else 1
            source = self._source(transaction, table, "false", lsn, serial)
            yield self._message(table, "c", None, after, source)

    def heartbeat(self, transaction: Transaction) -> Message:
        seen = milliseconds(transaction.commit_time) + _LAG_MS
        key = self._framed(_json(HEARTBEAT_KEY), {"serverName": self._prefix})
        value = self._framed(_json(HEARTBEAT_VALUE), {"ts_ms": seen})
        return Message(f"__debezium-heartbeat.{self._prefix}", key, value, (), seen)

    def _message(
        self, table: Table, operation: str, before: Row | None, after: Row | None, source: dict[str, Any]
    ) -> Message:
        seen = source["ts_ms"] + _LAG_MS
        payload = {
            "before": self._wire(table, before),
            "after": self._wire(table, after),
            "source": source,
            "transaction": None,
            "op": operation,
            "ts_ms": seen,
            "ts_us": seen * 1000,
            "ts_ns": seen * 1_000_000,
        }
        row = payload["after"] or payload["before"]
        key = self._framed(self._keys[table.full_name], {name: row[name] for name in table.key})
        value = self._framed(self._values[table.full_name], payload)
        return Message(self._topics[table.full_name], key, value, (), seen)

    def _wire(self, table: Table, row: Row | None) -> dict[str, Any] | None:
        return None if row is None else {c.name: wire_value(c, row[c.name]) for c in table.columns}

    def _source(
        self,
        transaction: Transaction,
        table: Table,
        snapshot: str,
        lsn: bytes | None,
        serial: int | None,
    ) -> dict[str, Any]:
        committed = milliseconds(transaction.commit_time)
        return {
            "version": "3.1.0.Final",
            "connector": "sqlserver",
            "name": self._prefix,
            "ts_ms": committed,
            "snapshot": snapshot,
            "db": DATABASE,
            "sequence": None,
            "ts_us": committed * 1000,
            "ts_ns": committed * 1_000_000,
            "schema": table.schema,
            "table": table.name,
            "change_lsn": None if lsn is None else lsn_text(lsn),
            "commit_lsn": lsn_text(transaction.commit_lsn),
            "event_serial_no": serial,
        }

    def _framed(self, schema: str, payload: dict[str, Any]) -> bytes:
        text = _json(payload)
        return (f'{{"schema":{schema},"payload":{text}}}' if self._schemas else text).encode()


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
