"""Converts the JSON messages of change event streaming to its other format, Avro without a frame.

The schemas are those of the product's page. `finalevent`, if the event has it, stands between
`sequencenumber` and `committime`: Avro writes no names, so a field is identified by its place only.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

from sourcelab.avro import record, written
from sourcelab.messages import Message

_TEXTS = (
    "specversion", "type", "source", "id", "logicalid", "time", "datacontenttype", "operation",
)  # fmt: skip


def messages(events: Iterable[Message], split_at: int | None = None) -> Iterator[Message]:
    """Converts unsplit events. `split_at`: the number of bytes of `data` that fit into one message."""
    for message in events:
        envelope = json.loads(message.value or b"{}")
        event = json.loads(envelope["data"])
        data = written(_event("finalevent" in event["eventsource"]["transaction"]), event)
        size = split_at or len(data)
        parts = [data[at : at + size] for at in range(0, len(data), size)]
        # An unsplit event's segment is numbered 0 or 1: the number that its generation counts from.
        first = envelope["segmentindex"]
        for at, part in enumerate(parts):
            segment = {"segmentindex": first + at, "finalsegment": at + 1 == len(parts), "data": part}
            own = {"id": str(uuid.uuid5(uuid.NAMESPACE_URL, f"{envelope['id']}/{at}"))}
            yield message._replace(value=written(_ENVELOPE, envelope | own | segment))


_ENVELOPE = record(
    "ChangeEvent",
    {**dict.fromkeys(_TEXTS, "string"), "segmentindex": "int", "finalsegment": "boolean", "data": "bytes"},
)


def _event(with_final_event: bool) -> dict[str, Any]:
    column = record("Column", {"name": "string", "type": "string", "index": "int"})
    key = record("PkKey", {"columnname": "string", "value": "string"})
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
        "transaction": record("Transaction", transaction),
    }
    row = record("EventRow", {"old": "string", "current": "string"})
    return record("Data", {"eventsource": record("EventSource", source), "eventrow": row})
