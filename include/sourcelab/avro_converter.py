"""Converts JSON messages with schema blocks to what Connect's Avro converter writes for the same records.

A record's schema follows from its block: `name` becomes `connect.name`, an optional type becomes a union with
null, and a name that occurs again becomes a reference. Each schema is registered under the subject
`<topic>-key` or `<topic>-value`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import fastavro

from sourcelab.avro import written
from sourcelab.messages import Message

_KINDS = {
    "boolean": "boolean",
    "int8": "int",
    "int16": "int",
    "int32": "int",
    "int64": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "bytes": "bytes",
}
_DECIMAL = "org.apache.kafka.connect.data.Decimal"

_Schema = dict[str, Any]


class AvroConverter:
    """Encodes messages. `register` takes a subject and a schema (JSON), and returns the schema's id."""

    def __init__(self, register: Callable[[str, str], int]) -> None:
        self._register = register
        self._ids: dict[tuple[str, str], tuple[int, Any]] = {}

    def encoded(self, messages: Iterable[Message]) -> Iterator[Message]:
        for message in messages:
            key = self._framed(f"{message.topic}-key", message.key)
            value = message.value and self._framed(f"{message.topic}-value", message.value)
            yield message._replace(key=key, value=value)

    def _framed(self, subject: str, raw: bytes) -> bytes:
        message = json.loads(raw)
        block = message["schema"]
        known = self._ids.get((subject, json.dumps(block)))
        if known is None:
            schema = _schema(block, set())
            number = self._register(subject, json.dumps(schema))
            known = number, fastavro.parse_schema(_without_logical_types(schema))
            self._ids[subject, json.dumps(block)] = known
        number, parsed = known
        return b"\0" + number.to_bytes(4, "big") + written(parsed, _value(block, message["payload"]))


def _schema(block: _Schema, named: set[str]) -> Any:
    schema: Any = _required(block, named)
    if not block.get("optional"):
        return schema
    # A default must be of the union's first branch.
    return [schema, "null"] if "default" in block else ["null", schema]


def _required(block: _Schema, named: set[str]) -> Any:
    kind, name = block["type"], block.get("name")
    properties: _Schema = {} if name is None else {"connect.name": name}
    if "version" in block:
        properties["connect.version"] = block["version"]
    if "parameters" in block:
        properties["connect.parameters"] = block["parameters"]
    if kind != "struct":
        if kind in {"int8", "int16"}:
            properties["connect.type"] = kind
        if name == _DECIMAL:
            of = block["parameters"]
            properties |= {"logicalType": "decimal", "scale": int(of["scale"])}
            properties["precision"] = int(of.get("connect.decimal.precision", 64))
        return {"type": _KINDS[kind], **properties} if properties else _KINDS[kind]
    assert name is not None, "Connect names its structs"
    if name in named:
        return name
    named.add(name)
    namespace, _, short = name.rpartition(".")
    fields = []
    for member in block["fields"]:
        field = {"name": member["field"], "type": _schema(member, named)}
        if member.get("optional"):
            field["default"] = member.get("default")
        fields.append(field)
    record = {"type": "record", "name": short, "fields": fields, **properties}
    return record | ({"namespace": namespace} if namespace else {})


def _value(block: _Schema, value: Any) -> Any:
    if value is None:
        return None
    if block["type"] == "struct":
        return {member["field"]: _value(member, value.get(member["field"])) for member in block["fields"]}
    return base64.b64decode(value) if block["type"] == "bytes" else value


def _without_logical_types(schema: Any) -> Any:
    """Returns the schema for encoding: the values are already the converter's encoded integers and bytes."""
    if isinstance(schema, list):
        return [_without_logical_types(branch) for branch in schema]
    if isinstance(schema, dict):
        return {k: _without_logical_types(v) for k, v in schema.items() if k != "logicalType"}
    return schema
