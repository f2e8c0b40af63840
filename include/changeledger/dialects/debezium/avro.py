"""Which table Avro messages of one topic and schema are of, and how their columns are written.

Connect's Avro schema says what its JSON schema block says: `connect.name` is the block's `name`,
`connect.parameters` its `parameters`. So columns are found in it as in the block.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from changeledger.config.feed import Feed
from changeledger.dialects.debezium.schema_block import contract_of, json_object, table_of
from changeledger.dialects.messages.message_rows import Outcome
from changeledger.dialects.messages.samples import Sample
from changeledger.kernels import avro
from changeledger.kernels.avro import BrokenRecord, Node, Schema, UnusableSchema
from changeledger.model import change
from changeledger.model.contract import Contract

_KINDS = {"int": "int32", "long": "int64", "record": "struct", "enum": "string", "fixed": "bytes"}
_LOGICAL = {
    "decimal": "org.apache.kafka.connect.data.Decimal",
    "date": "org.apache.kafka.connect.data.Date",
    "time-millis": "org.apache.kafka.connect.data.Time",
    "timestamp-millis": "org.apache.kafka.connect.data.Timestamp",
}


class AvroSchema(NamedTuple):
    """What the messages of one topic and schema are. Without a table they are of none of the feed's."""

    table: str | None = None
    columns: Contract | None = None
    database: str | None = None
    # Why they cannot be read.
    fault: Outcome | None = None


def avro_schema(samples: Sequence[Sample], feed: Feed, schemas: Mapping[str, str]) -> AvroSchema:
    """By the first and the last message of one topic and schema."""
    first = samples[0]
    schema_id = avro.schema_id(first.value or b"")
    text = schemas.get(schema_id)
    if text is None:
        why = f"no schema of the id {schema_id}: the registry does not know it, or the feed has none"
        return AvroSchema(fault=Outcome(change.QUARANTINED, "unknown_schema", why))
    try:
        schema = avro.schema(text)
    except UnusableSchema as error:
        why = f"the schema {schema_id}: {error}"[:500]
        return AvroSchema(fault=Outcome(change.QUARANTINED, "unusable_schema", why))
    if not {"op", "source"} <= schema.root.fields.keys():
        return AvroSchema()
    for sample in samples:
        payload = _example(sample, schema)
        if payload is None:
            continue
        config = table_of(payload, sample.topic, feed)
        if config is None:
            return AvroSchema()
        columns = contract_of(config, {"schema": block(schema.root)}, _key(sample.key, schemas))
        return AvroSchema(config.table, columns, payload["source"].get("db"))
    return _by_name(schema, first, feed, schemas)


def _example(sample: Sample, schema: Schema) -> Mapping[str, Any] | None:
    try:
        return schema.record((sample.value or b"")[avro.FRAME_BYTES :], "replace")
    except BrokenRecord:
        return None


def _by_name(schema: Schema, sample: Sample, feed: Feed, schemas: Mapping[str, str]) -> AvroSchema:
    """The table in the schema's own name, `<prefix>.<schema>.<table>.Envelope`: no sample could be read."""
    config = feed.table(".".join(schema.root.name.split(".")[-3:-1]))
    if config is None:
        return AvroSchema()
    return AvroSchema(
        config.table, contract_of(config, {"schema": block(schema.root)}, _key(sample.key, schemas))
    )


def _key(key: bytes | None, schemas: Mapping[str, str]) -> Mapping[str, Any]:
    """What a message's key says of the table's key: in Avro by its schema alone, else in JSON."""
    if key is None or not avro.is_framed(key):
        return json_object(key)
    try:
        return {"schema": block(avro.schema(schemas.get(avro.schema_id(key), "")).root)}
    except UnusableSchema:
        return {}


def block(node: Node) -> dict[str, Any]:
    """Connect's schema block of a type."""
    said = node.properties
    kind = said.get("connect.type") or _KINDS.get(node.kind, node.kind)
    logical = str(said.get("logicalType"))
    found: dict[str, Any] = {"type": kind, "optional": node.nullable}
    found["name"] = said.get("connect.name") or _LOGICAL.get(logical)
    found["parameters"] = dict(_parameters(said, logical))
    if node.kind == "record":
        found["fields"] = [{**block(inner), "field": name} for name, inner in node.fields.items()]
    return found


def _parameters(said: Mapping[str, Any], logical: str) -> Iterator[tuple[str, Any]]:
    if logical == "decimal":
        yield from (("scale", said.get("scale", 0)), ("connect.decimal.precision", said.get("precision", 38)))
    stated = said.get("connect.parameters")
    yield from (stated.items() if isinstance(stated, dict) else ())
