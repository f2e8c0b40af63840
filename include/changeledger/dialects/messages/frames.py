"""Recognizes frames of keys and values that no dialect reads, and says what to change.

Dialects read one frame: a zero byte, the schema's id in four bytes, then the record in Avro (`kernels.avro`).
Sources of the others: Confluent's page "Formats, Serializers, and Deserializers" and its Python client (JSON
Schema, Protobuf, ids in headers); Apicurio/apicurio-registry#2151 (ids of 8 bytes), #4199 (ids in headers);
awslabs/aws-glue-schema-registry, AWSSchemaRegistryConstants; hortonworks/registry, docs/serdes.rst.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from changeledger.dialects.messages.problems import Problem
from changeledger.kernels import avro, json_text
from changeledger.kernels.avro_types import OtherSchema, UnusableSchema
from changeledger.kernels.json_text import NotJson

Side = Literal["key", "value"]
# A message's headers, as in a column of type `arrow.HEADERS`.
Headers = Sequence[Mapping[str, Any]]

UNKNOWN_SCHEMA, UNUSABLE_SCHEMA = "unknown_schema", "unusable_schema"
JSON_SCHEMA, IN_HEADERS = "json_schema_frame", "schema_id_in_headers"
# Names of the headers that carry the schema id.
ID_HEADERS: Mapping[Side, frozenset[str]] = {
    side: frozenset(
        {
            *(f"apicurio.{side}.{name}" for name in ("globalId", "contentId", "contentHash", "artifactId")),
            f"__{side}_schema_id",
            f"{side}.schema.version.id",
        }
    )
    for side in ("key", "value")
}
# Azure's converters put the id into this header, after the type.
CONTENT_TYPE, AVRO_WITH_ID = "content-type", "avro/binary+"
_LONG_FRAME_BYTES = 9
# Frames that are recognized by how they begin.
_SIGNS = (
    (rb"\x03[\x00\x05].{16}", "glue_frame", "has a frame of AWS Glue Schema Registry (first byte 3)"),
    # The schema's id in eight bytes, then its version in four.
    (rb"\x01\x00{4}.{8}", "hortonworks_frame", "has a frame of Hortonworks Schema Registry (first byte 1)"),
    (rb"\x00{4}[0-9a-f]{32}", "azure_frame", "has a frame of Azure Schema Registry (the id as text)"),
    (rb"Obj\x01", "avro_file", "is an Avro file, as Event Hubs Capture writes it, not a message"),
    (rb"\xc3\x01", "single_object_encoding", "is in Avro's single-object encoding, without a registry's id"),
)
# Beginnings of values that a converter of Kafka Connect turned into text. Such keys are `unread_key`.
_STRUCT, _JSON_IN_TEXT = b"Struct{", re.compile(rb'\s*"(?:\s|\\[nrt])*\{')
_OF_TEXT = "org.apache.kafka.connect.storage.StringConverter"
_PREFIX = "io.confluent.kafka.serializers.schema.id.PrefixSchemaIdSerializer"
# What to change for dialects whose messages Kafka Connect does not write.
_REMEDIES = {
    "ces": "change event streaming writes no frame: read its event hub, not another tool's copy of it",
    "qlik_messages": "set the Kafka endpoint's message format to JSON, or to Avro with its data schemas in "
    "Confluent Schema Registry",
}


class Frame(NamedTuple):
    """A frame that is not read. `setting`: what to set in Kafka Connect instead."""

    reason: str
    what: str
    setting: str

    def problem(self, dialect: str) -> Problem:
        """Returns the problem of a message with this frame in a feed of the dialect."""
        return Problem(self.reason, f"{self.what}; {_REMEDIES.get(dialect, self.setting)}")


def unread(value: bytes, headers: Headers, side: Side = "value") -> Frame | None:
    """Returns the frame of a key or value if no dialect reads it, else None."""
    if not value:
        return None
    frame = _in_headers(value, headers, side)
    if frame is not None:
        return frame
    for sign, reason, what in _SIGNS:
        if re.match(sign, value, re.DOTALL):
            return Frame(reason, f"the {side} {what}", converters(side))
    if side == "value" and (frame := _of_text(value)) is not None:
        return frame
    return _of_zero_byte(value, side) if avro.is_framed(value) else None


def _of_text(value: bytes) -> Frame | None:
    if value.startswith(_STRUCT):
        what = "the value is the text form of a Java record, as Connect's StringConverter writes it"
        return Frame("struct_text", what, converters("value"))
    if _JSON_IN_TEXT.match(value):
        what = (
            "the value is JSON inside a JSON string, as Connect's JsonConverter writes what is already text"
        )
        return Frame("json_in_text", what, f"set value.converter to {_OF_TEXT} where the text is passed on")
    return None


def _in_headers(value: bytes, headers: Headers, side: Side) -> Frame | None:
    name = id_header(headers, side)
    # JSON text needs no schema.
    if name is None or value.lstrip()[:1] == b"{":
        return None
    setting = converters(side)
    if name.startswith("apicurio."):
        prefix = f"{side}.converter.apicurio.registry"
        setting = f"set {prefix}.headers.enabled=false and {prefix}.as-confluent=true"
    elif name.startswith("__"):
        setting = f"set {side}.converter.{side}.schema.id.serializer={_PREFIX}"
    what = f"the schema id of the {side} is in the header {name}, but is only read in front of the record"
    return Frame(IN_HEADERS, what, setting)


def _of_zero_byte(value: bytes, side: Side) -> Frame | None:
    schema_id = int(avro.schema_id(value))
    if _is_json(value[avro.FRAME_BYTES :]):
        return _json_schema(f"JSON follows the schema id {schema_id} of the {side}", side)
    if schema_id != 0:
        return None
    long_id = int.from_bytes(value[1:_LONG_FRAME_BYTES], "big")
    if len(value) >= _LONG_FRAME_BYTES and long_id:
        prefix = f"{side}.converter.apicurio.registry"
        what = f"the schema id of the {side}, {long_id}, has 8 bytes as Apicurio's converters write it, not 4"
        return Frame("eight_byte_id", what, f"set {prefix}.as-confluent=true and {prefix}.use-id=contentId")
    what = f"the {side} begins with a zero byte and 0, which is not a schema id"
    return Frame("no_schema_id", what, converters(side))


def unusable(schema_id: str, error: UnusableSchema, dialect: str, side: Side = "value") -> Problem:
    """Returns why records of a known schema cannot be read."""
    if not isinstance(error, OtherSchema):
        return Problem(UNUSABLE_SCHEMA, f"the schema {schema_id}: {error}")
    what = f"the registry's schema {schema_id} of the {side} has the type {error.kind}, not AVRO"
    other = Frame(f"{error.kind.lower()}_frame", what, converters(side))
    return (_json_schema(what, side) if error.kind == "JSON" else other).problem(dialect)


def id_header(headers: Headers, side: Side) -> str | None:
    """Returns the name of the header with the schema id of a message's key or value, or None."""
    header_name = next((header["key"] for header in headers if header["key"] in ID_HEADERS[side]), None)
    if header_name is not None or side == "key":
        return header_name
    types = (header["value"] or b"" for header in headers if header["key"] == CONTENT_TYPE)
    return CONTENT_TYPE if any(kind.startswith(AVRO_WITH_ID.encode()) for kind in types) else None


def with_id_header(raw: pa.RecordBatch) -> set[int]:
    """Returns the rows of a batch of messages whose headers carry the schema id of the value."""
    headers = raw.column("headers")
    keys, values = (headers.flatten().field(name) for name in ("key", "value"))
    named = pc.is_in(keys, pa.array(sorted(ID_HEADERS["value"]), pa.string()))
    has_id = pc.fill_null(pc.starts_with(values, AVRO_WITH_ID), fill_value=False)
    named = pc.or_(named, pc.and_(pc.equal(keys, CONTENT_TYPE), has_id))
    return set(pc.list_parent_indices(headers).filter(named).to_pylist()) if pc.any(named).as_py() else set()


def schema_ids(messages: Iterable[tuple[bytes | None, bytes | None, Headers]]) -> list[str]:
    """Returns the registry ids that the frames of messages name, the most frequent first.

    `messages`: key, value and headers of each.
    """
    counts: Counter[str] = Counter()
    for key, value, headers in messages:
        counts.update(avro.schema_ids([None if id_header(headers, "key") else key]))
        counts.update(avro.schema_ids([None if id_header(headers, "value") else value]))
    return [schema_id for schema_id, _ in counts.most_common()]


def _json_schema(what: str, side: Side) -> Frame:
    return Frame(JSON_SCHEMA, f"{what}, so it is JSON Schema", converters(side))


def converters(side: Side) -> str:
    """Returns the advice to set a converter whose output is read; Confluent Cloud has its own setting."""
    cloud = "output.data.format" if side == "value" else "output.key.format"
    return (
        f"set {side}.converter to org.apache.kafka.connect.json.JsonConverter or "
        f"io.confluent.connect.avro.AvroConverter (Confluent Cloud: {cloud} JSON or AVRO)"
    )


def _is_json(data: bytes) -> bool:
    try:
        json_text.members(data)
    except NotJson:
        return False
    return True
