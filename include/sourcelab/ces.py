"""Writes a log as messages of SQL Server 2025's change event streaming: JSON CloudEvents in one topic."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from zoneinfo import ZoneInfo

from sourcelab.ces_values import wire_text
from sourcelab.log import Change, Log, Transaction
from sourcelab.messages import Message, lsn_text
from sourcelab.tables import DATABASE, Column, Row, Table

# Three generations of the product write three different envelopes: see `_segments` and `_Writer._source`.
Generation = Literal["preview", "captured", "2026"]

_STREAM = uuid.UUID("9c8d4ad2-bf54-4f10-a96f-038af496997f")
# Milliseconds from the commit until the event reaches the topic.
_LAG_MS = 210


def messages(  # noqa: PLR0913 - the settings of a stream group, all by name
    log: Log,
    *,
    generation: Generation = "2026",
    split_at: int | None = None,
    all_columns: bool = True,
    old_values: bool = True,
    zone: str = "UTC",
    topic: str = f"{DATABASE}.changes",
    from_tx: int = 0,
    to_tx: int | None = None,
) -> Iterator[Message]:
    """Yields the messages of the transactions `[from_tx, to_tx)`, all tables in one topic.

    This format has no snapshot.

    - `split_at`: the number of characters of `data` that fit into one message; longer events are split.
    - `all_columns`, `old_values`: the options of `sp_add_object_to_event_stream_group`.
    - `zone`: the time zone of the server's clock. `committime` is local time in it, yet ends with `Z`.
    """
    writer = _Writer(generation, split_at, all_columns, old_values, ZoneInfo(zone), topic)
    for transaction in log.transactions[from_tx:to_tx]:
        for sequence, change in enumerate(transaction.changes, start=1):
            yield from writer.messages_of(transaction, change, sequence)


@dataclass(frozen=True)
class _Writer:
    generation: Generation
    split_at: int | None
    all_columns: bool
    old_values: bool
    clock: ZoneInfo
    topic: str

    def messages_of(self, transaction: Transaction, change: Change, sequence: int) -> Iterator[Message]:
        """Yields the messages of a change. A key update becomes DEL and INS at one position."""
        table = change.table
        if change.operation == "update":
            assert change.before is not None
            assert change.after is not None
            sent = [c for c in table.columns if self.all_columns or c.name in {*change.changed, *table.key}]
            # By default, the old value of a large column is not sent.
            old = [c for c in sent if not c.is_max]
            before = _row(old, change.before) if self.old_values else {}
            yield from self._event(
                transaction, change, sequence, "UPD", sent, before, _row(sent, change.after)
            )
            return
        columns = list(table.columns)
        if change.before is not None:
            old = [c for c in columns if not c.is_max]
            before = _row(old, change.before) if self.old_values else {}
            yield from self._event(transaction, change, sequence, "DEL", columns, before, {})
        if change.after is not None:
            yield from self._event(
                transaction, change, sequence, "INS", columns, {}, _row(columns, change.after)
            )

    def _event(  # noqa: PLR0913, PLR0917 - the parts of one event
        self,
        transaction: Transaction,
        change: Change,
        sequence: int,
        operation: str,
        columns: list[Column],
        old: dict[str, str | None],
        current: dict[str, str | None],
    ) -> Iterator[Message]:
        table = change.table
        row = change.before if operation == "DEL" else change.after
        assert row is not None
        data = {
            "eventsource": self._source(transaction, table, columns, row, sequence),
            "eventrow": {"old": _json(old), "current": _json(current)},
        }
        logical = f"{_STREAM}:{transaction.commit_lsn.hex().upper()}:{sequence:020}"
        for at, (segment, text) in enumerate(self._segments(_json(data, indent=2))):
            envelope = {
                "specversion": "1.0",
                "type": "com.microsoft.SQL.CES.DML.V1",
                "source": "/",
                "id": str(uuid.uuid5(_STREAM, f"{logical}:{operation}:{at}")),
                "logicalid": logical,
                "time": _instant(transaction.commit_time),
                "datacontenttype": (
                    "application/avro-json" if self.generation == "captured" else "application/json"
                ),
                "operation": operation,
                **segment,
                "data": text,
            }
            seen = int(transaction.commit_time.timestamp() * 1000) + _LAG_MS
            # As the partition key scheme `Table` does.
            key = table.full_name.encode()
            yield Message(self.topic, key, _json(envelope).encode(), (), seen)

    def _segments(self, data: str) -> list[tuple[dict[str, Any], str]]:
        """Splits `data`, and returns each part with the members that give its place.

        `preview` counts from 0, and writes 0 of 0 if nothing is split. `captured` counts from 1 and `2026`
        from 0; both mark the last segment.
        """
        size = self.split_at or len(data)
        parts = [data[at : at + size] for at in range(0, len(data), size)]
        if self.generation == "preview":
            total = len(parts) if len(parts) > 1 else 0
            return [({"splitindex": at, "splittotalcnt": total}, part) for at, part in enumerate(parts)]
        first = 1 if self.generation == "captured" else 0
        return [
            ({"segmentindex": first + at, "finalsegment": at + 1 == len(parts)}, part)
            for at, part in enumerate(parts)
        ]

    def _source(
        self, transaction: Transaction, table: Table, columns: list[Column], row: Row, sequence: int
    ) -> dict[str, Any]:
        source: dict[str, Any] = {
            "db": DATABASE,
            "schema": table.schema,
            "tbl": table.name,
            "cols": [{"name": c.name, "type": c.type, "index": c.ordinal - 1} for c in columns],
            "pkkey": [
                {"columnname": c.name, "value": wire_text(c, row[c.name])}
                for c in sorted(
                    (c for c in table.columns if c.name in table.key), key=lambda c: table.key.index(c.name)
                )
            ],
        }
        if self.generation != "preview":
            local = transaction.commit_time.astimezone(self.clock)
            source["transaction"] = {
                "commitlsn": lsn_text(transaction.commit_lsn).upper(),
                "beginlsn": lsn_text(transaction.begin_lsn).upper(),
                "sequencenumber": sequence,
                **({"finalevent": False} if self.generation == "2026" else {}),
                "committime": _instant(local),
            }
        return source


def _row(columns: list[Column], row: Row) -> dict[str, str | None]:
    return {c.name: wire_text(c, row[c.name]) for c in columns}


def _json(value: object, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _instant(time: datetime) -> str:
    """Formats a clock reading in milliseconds, with the `Z` that the product always appends."""
    return time.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"
