"""CES messages in Avro: the envelope, and inside it the event, each without a frame by a schema of the page.

The page's schema of the event exists with and without `finalevent`, which stands between `sequencenumber` and
`committime`. Avro writes no names, and nothing in a message says which schema it has: both are tried, and the
one that uses up all bytes holds. The event becomes the JSON text that the other format has in its place.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from changeledger.kernels.avro import BrokenRecord, NotUtf8, Schema

_TEXTS = (
    "specversion", "type", "source", "id", "logicalid", "time", "datacontenttype", "operation",
)  # fmt: skip
# No JSON begins with a byte below that of its white space; an Avro envelope with the length of a short text.
_BELOW_JSON = 0x09
_NAME = re.compile(r"[^\x00-\x1f\x7f]{1,128}\Z")
_TABLE = ("db", "schema", "tbl")


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
        **dict.fromkeys(_TABLE, "string"),
        cols=_array(_record("Column", name="string", type="string", index="int")),
        pkkey=_array(_record("PkKey", columnname="string", value="string")),
        transaction=transaction,
    )
    row = _record("EventRow", old="string", current="string")
    return Schema(json.dumps(_record("Data", eventsource=source, eventrow=row)))


_SEGMENT = {"segmentindex": "int", "finalsegment": "boolean", "data": "bytes"}
_ENVELOPE = Schema(json.dumps(_record("ChangeEvent", **dict.fromkeys(_TEXTS, "string"), **_SEGMENT)))
_EVENTS = (_event(finalevent="boolean"), _event())


def is_avro(value: bytes) -> bool:
    return value[:1] < bytes([_BELOW_JSON]) and bool(value)


def members(value: bytes) -> Mapping[str, Any] | None:
    """The members of an envelope; None if it is none. An event in `data` is JSON text."""
    try:
        envelope = _ENVELOPE.record(value, "replace")
    except BrokenRecord:
        return None
    return {**envelope, "data": event_text(envelope["data"])}


def event_text(data: bytes) -> str | bytes:
    """A whole event as JSON text; the bytes as they are where they are none."""
    if not data.startswith(b"{"):
        for schema in _EVENTS:
            try:
                return schema.json(data).decode()
            except (BrokenRecord, NotUtf8):
                continue
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def as_json(value: bytes) -> bytes:
    """The message as its producer would write it in JSON; as it is where it is JSON, or cannot be read."""
    envelope = members(value) if is_avro(value) else None
    return value if envelope is None or isinstance(envelope["data"], bytes) else msgspec.json.encode(envelope)


def begins(data: bytes) -> bool:
    """Is it likely that an event begins with these bytes? It does with the names of database and table."""
    for _ in _TABLE:
        name, data = _text(data)
        if name is None or not _NAME.match(name):
            return False
    return True


def _text(data: bytes) -> tuple[str | None, bytes]:
    """The text that bytes begin with, and what follows it."""
    count = at = 0
    for byte in data[:5]:
        count |= (byte & 0x7F) << 7 * at
        at += 1
        if byte < 0x80:
            break
    length = count >> 1
    if count & 1 or at + length > len(data):
        return None, data
    try:
        return data[at : at + length].decode(), data[at + length :]
    except UnicodeDecodeError:
        return None, data
