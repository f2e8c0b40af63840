"""CES messages in Avro: the envelope and the event in it, each without a frame, by a schema of the page.

The page's schema of the event exists with and without `finalevent`, between `sequencenumber` and
`committime`. Avro writes no names, and nothing in a message says which schema it has: the schema that
consumes all bytes is taken. Both can do so if the length of `committime` also reads as a true `finalevent`;
the producer writes false. The event becomes the JSON text that a message in JSON has in its place.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from changeledger.kernels.avro import BrokenRecord, NotUtf8, Schema

_TEXTS = (
    "specversion", "type", "source", "id", "logicalid", "time", "datacontenttype", "operation",
)  # fmt: skip
# No JSON begins with a byte below its white space. An Avro envelope does: with the length of a short text.
_BELOW_JSON = b"\x09"


def _record(name: str, /, **fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields.items()]}


def _array(element: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": element}


def _event(**final: str) -> Schema:
    transaction = _record(
        "Transaction",
        commitlsn="string",
        beginlsn="string",
        sequencenumber="int",
        **final,
        committime="string",
    )
    source = _record(
        "EventSource",
        **dict.fromkeys(("db", "schema", "tbl"), "string"),
        cols=_array(_record("Column", name="string", type="string", index="int")),
        pkkey=_array(_record("PkKey", columnname="string", value="string")),
        transaction=transaction,
    )
    row = _record("EventRow", old="string", current="string")
    return Schema(json.dumps(_record("Data", eventsource=source, eventrow=row)))


_SEGMENT = {"segmentindex": "int", "finalsegment": "boolean", "data": "bytes"}
_ENVELOPE = Schema(json.dumps(_record("ChangeEvent", **dict.fromkeys(_TEXTS, "string"), **_SEGMENT)))
_WITH_FINALEVENT, _WITHOUT = _event(finalevent="boolean"), _event()
_TRUE = '"finalevent":true'


def is_avro(value: bytes) -> bool:
    return value[:1] < _BELOW_JSON and bool(value)


def members(value: bytes) -> Mapping[str, Any] | None:
    """Returns the members of an envelope; None for any other value. An event in `data` becomes JSON text."""
    try:
        envelope = _ENVELOPE.record(value, "replace")
    except BrokenRecord:
        return None
    data = envelope["data"]
    # Only the final segment may be a whole event: another one may also end where an event could.
    return {**envelope, "data": event_text(data) if envelope["finalsegment"] else text_or_bytes(data)}


def event_text(data: bytes) -> str | bytes:
    """Returns a whole event as JSON text, and any other bytes as `text_or_bytes` does."""
    if not data.startswith(b"{"):
        text = _text_by(_WITH_FINALEVENT, data)
        if text is None or _TRUE in text:
            text = _text_by(_WITHOUT, data) or text
        if text is not None:
            return text
    return text_or_bytes(data)


def text_or_bytes(raw: bytes) -> str | bytes:
    """Decodes UTF-8. Returns other bytes as they are, such as a segment that is cut inside a character."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


def as_json(value: bytes) -> bytes:
    """Returns the message as its producer would write it in JSON.

    A message that is in JSON already, or that cannot be read, is returned as it is.
    """
    envelope = members(value) if is_avro(value) else None
    return value if envelope is None or isinstance(envelope["data"], bytes) else msgspec.json.encode(envelope)


def is_event(data: bytes) -> bool:
    """Returns whether these bytes are a whole event in Avro, even if its texts are not UTF-8."""
    for schema in (_WITH_FINALEVENT, _WITHOUT):
        try:
            schema.record(data, "replace")
        except BrokenRecord:
            continue
        return True
    return False


def _text_by(schema: Schema, data: bytes) -> str | None:
    """Returns an event as JSON text, or None if the bytes are no event of this schema."""
    try:
        return schema.json(data).decode()
    except (BrokenRecord, NotUtf8):
        return None
