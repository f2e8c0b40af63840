"""Converts Qlik's messages in Avro to the JSON that the task would have written.

They come in one of two forms:

* In Qlik's own envelope, itself in Avro, which begins with the letters of its magic. A metadata message
  brings its schema along; data names a schema that a metadata message has (`dataSchema`).
* In a frame, with a schema of a registry.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.dialects.messages import frames
from changeledger.dialects.messages.problems import Problem
from changeledger.dialects.qlik_messages import avro_values
from changeledger.dialects.qlik_messages.metadata import MAGIC, is_kept
from changeledger.kernels import avro
from changeledger.kernels.arrow import flags_of
from changeledger.kernels.avro import BrokenRecord, NotUtf8, Schema
from changeledger.kernels.avro_types import Node, UnusableSchema
from changeledger.kernels.json_text import UNREADABLE

DIALECT = "qlik_messages"
_HEADERS = (
    "operation", "changeSequence", "timestamp", "streamPosition", "transactionId", "changeMask", "columnMask",
    "externalSchemaId", "transactionEventCounter", "transactionLastEvent",
)  # fmt: skip
_ROWS = ("data", "beforeData")
_MAGIC = MAGIC.encode()
_ENVELOPE = Schema(
    json.dumps(
        {
            "type": "record",
            "name": "MessageEnvelope",
            "fields": [
                {"name": "magic", "type": {"type": "fixed", "name": "Magic", "size": len(MAGIC)}},
                {"name": "type", "type": "string"},
                {"name": "headers", "type": ["null", {"type": "map", "values": "string"}]},
                {"name": "messageSchemaId", "type": ["null", "string"]},
                {"name": "messageSchema", "type": ["null", "string"]},
                {"name": "message", "type": "bytes"},
            ],
        }
    )
)
# Avro schemas by name: a registry's by its id, others by the name that `of_message` gives them.
Schemas = Mapping[str, str]


# Which columns are binary, by name in lower case, as far as they are known.
Binary = Mapping[str, bool]
_UNKNOWN: Binary = {}
# A message as JSON, and why the message, or what is in it, cannot be read.
Said = tuple[bytes | None, Problem | None]


def of_message(schema_id: str | None) -> str:
    """Returns the name of a metadata message's schema, which differs from every registry's id."""
    return f"message {schema_id}"


def is_avro(value: bytes) -> bool:
    return value.startswith(_MAGIC) or avro.is_framed(value)


def as_json(value: bytes, schemas: Schemas, binary: Binary = _UNKNOWN) -> Said:
    """Returns the message in JSON. A message that is in JSON already is returned as it is."""
    if value.startswith(_MAGIC):
        return _opened(value, schemas, binary)
    if not avro.is_framed(value):
        return value, None
    try:
        return _of_schema(value, value[avro.FRAME_BYTES :], avro.schema_id(value), schemas, binary), None
    except Problem as problem:
        return None, problem


def _opened(value: bytes, schemas: Schemas, binary: Binary) -> Said:
    try:
        envelope = _ENVELOPE.record(value, "replace")
    except BrokenRecord:
        return None, Problem("malformed_avro", avro.beginning(value))
    kind, schema_id, inline_schema = (envelope[name] for name in ("type", "messageSchemaId", "messageSchema"))
    name, inside, problem = of_message(schema_id), b"{}", None
    if inline_schema is not None:
        name, schemas, schema_id = "own", {"own": inline_schema}, None
    try:
        inside = _of_schema(value, envelope["message"], name, schemas, binary)
    except Problem as error:
        problem = error
    outer = {"magic": MAGIC, "type": kind, "messageSchemaId": schema_id, "message": msgspec.Raw(inside)}
    return msgspec.json.encode(outer), problem


def _of_schema(value: bytes, record: bytes, schema_id: str, schemas: Schemas, binary: Binary) -> bytes:
    """Returns a record as JSON. Raises Problem."""
    text = schemas.get(schema_id)
    if text is None:
        why = f"no Avro schema for the id {schema_id}: neither metadata nor a registry has it"
        raise Problem(frames.UNKNOWN_SCHEMA, why)
    try:
        schema = avro.schema(text)
        if "headers" not in schema.root.fields:
            return schema.json(record)
        return msgspec.json.encode(_data(schema.record(record), schema.root, binary))
    except UnusableSchema as error:
        raise frames.unusable(schema_id, error, DIALECT) from None
    except (BrokenRecord, NotUtf8, UnicodeDecodeError):
        raise Problem("malformed_avro", avro.beginning(value)) from None


def _data(record: Mapping[str, Any], root: Node, binary: Binary) -> dict[str, Any]:
    """Returns the members of a data message, as JSON has them."""
    members: dict[str, Any] = {}
    for name in ("schema", "table"):
        members[name] = _plain(record.get(name), root.fields.get(name))
    members["headers"] = _headers(record.get("headers"), root.fields.get("headers"))
    return members | {name: _row(record.get(name), root.fields.get(name), binary) for name in _ROWS}


def _headers(record: Any, node: Node | None) -> dict[str, Any] | None:
    if record is None or node is None or node.kind != "record":
        return None
    return {name: _plain(record.get(name), node.fields.get(name)) for name in _HEADERS}


def _row(record: Any, node: Node | None, binary: Binary) -> dict[str, Any] | None:
    if record is None or node is None or node.kind != "record":
        return None
    return {
        name: avro_values.cell(record.get(name), inner, binary.get(name.lower()))
        for name, inner in node.fields.items()
    }


def _plain(value: Any, node: Node | None) -> Any:
    """Returns a name or header as JSON has it. Masks in bytes become hex digits."""
    if value is None or node is None or isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.hex().upper()
    return avro_values.cell(value, node)


def schemas_in(values: Iterable[bytes | None]) -> dict[str, str]:
    """Returns the Avro schemas in metadata messages, by name. They are needed before any data is read."""
    schemas: dict[str, str] = {}
    for value in values:
        if value is None or b"dataSchema" not in value:
            continue
        text, _ = as_json(value, {})
        schemas |= {} if text is None else _schema_in(text)
    return schemas


class _Body(msgspec.Struct, gc=False):
    schemaId: str | int | None = None  # noqa: N815 - as Qlik writes it
    dataSchema: msgspec.Raw = msgspec.Raw(b"null")  # noqa: N815


class _Metadata(_Body, gc=False):
    message: _Body | None = None


_DECODE = msgspec.json.Decoder(_Metadata).decode


def _schema_in(text: bytes) -> dict[str, str]:
    try:
        whole = _DECODE(text)
    except UNREADABLE:
        return {}
    body = whole.message or whole
    written = bytes(body.dataSchema)
    if body.schemaId is None or written == b"null":
        return {}
    schema = msgspec.json.decode(written, type=str) if written[:1] == b'"' else written.decode()
    name = of_message(str(body.schemaId))
    return {name: schema} if is_kept(name) and "\0" not in schema else {}


def in_json(
    raw: pa.RecordBatch, schemas: Schemas, binary: Binary = _UNKNOWN
) -> tuple[list[bytes | None], dict[int, Problem]]:
    """Returns the messages of a batch in JSON, and the problems of those that cannot be read, by row."""
    column = raw.column("value")
    values: list[bytes | None] = column.to_pylist()
    problems: dict[int, Problem] = {}
    doubtful = pc.or_(pc.less(column, b"\1"), pc.starts_with(column, MAGIC))
    for at in np.flatnonzero(flags_of(doubtful)):
        value = values[at]
        if value is not None and is_avro(value):
            values[at], problem = as_json(value, schemas, binary)
            if problem is not None:
                problems[int(at)] = problem
    return values, problems
