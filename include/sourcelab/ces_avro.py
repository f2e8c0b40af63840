"""Turns the JSON messages of change event streaming into its other format: Avro, without any frame.

The schemas are those of the product's page; the event's has `finalevent` where the event has it, between
`sequencenumber` and `committime`: Avro writes no names, so the place is all that says what a byte is.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator
from io import BytesIO
from typing import Any

import fastavro

from sourcelab.messages import Message

_TEXTS = (
    "specversion", "type", "source", "id", "logicalid", "time", "datacontenttype", "operation",
)  # fmt: skip


def messages(events: Iterable[Message], split_at: int | None = None) -> Iterator[Message]:
    """`events` are unsplit events; `split_at` is the number of bytes of `data` that one message holds."""
    for message in events:
        envelope = json.loads(message.value or b"{}")
        event = json.loads(envelope["data"])
        data = _written(_event("finalevent" in event["eventsource"]["transaction"]), event)
        size = split_at or len(data)
        parts = [data[at : at + size] for at in range(0, len(data), size)]
        # Events that are not split are segment 0 or 1: of which one counts from.
        first = envelope["segmentindex"]
        for at, part in enumerate(parts):
            segment = {"segmentindex": first + at, "finalsegment": at + 1 == len(parts), "data": part}
            own = {"id": str(uuid.uuid5(uuid.NAMESPACE_URL, f"{envelope['id']}/{at}"))}
            yield message._replace(value=_written(_ENVELOPE, envelope | own | segment))


def _record(name: str, fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields.items()]}


_ENVELOPE = _record(
    "ChangeEvent",
    {**dict.fromkeys(_TEXTS, "string"), "segmentindex": "int", "finalsegment": "boolean", "data": "bytes"},
)


def _event(with_final_event: bool) -> dict[str, Any]:
    column = _record("Column", {"name": "string", "type": "string", "index": "int"})
    key = _record("PkKey", {"columnname": "string", "value": "string"})
    final = {"finalevent": "boolean"} if with_final_event else {}
    transaction = {
        "commitlsn": "string",
        "beginlsn": "string",
        "sequencenumber": "int",
        **final,
        "committime": "string",
    }
    source = {
        **dict.fromkeys(("db", "schema", "tbl"), "string"),
        "cols": {"type": "array", "items": column},
        "pkkey": {"type": "array", "items": key},
        "transaction": _record("Transaction", transaction),
    }
    row = _record("EventRow", {"old": "string", "current": "string"})
    return _record("Data", {"eventsource": _record("EventSource", source), "eventrow": row})


def _written(schema: dict[str, Any], record: dict[str, Any]) -> bytes:
    body = BytesIO()
    fastavro.schemaless_writer(body, schema, record)
    return body.getvalue()
