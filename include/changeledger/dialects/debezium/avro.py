"""Translates Connect's Avro schemas to schema blocks, and finds the table of messages in Avro.

`connect.name` becomes the block's `name`, and `connect.parameters` its `parameters`. So columns are found in
an Avro schema as in a block.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from changeledger.config.feed import Feed
from changeledger.dialects.debezium.plain import json_object
from changeledger.dialects.debezium.schema_block import Described, contract_of, source_name
from changeledger.dialects.messages import frames
from changeledger.dialects.messages.frames import Side
from changeledger.dialects.messages.message_rows import Outcome
from changeledger.dialects.messages.samples import Sample
from changeledger.kernels import avro
from changeledger.kernels.avro import BrokenRecord, Schema
from changeledger.kernels.avro_types import Node, UnusableSchema
from changeledger.model import change
from changeledger.model.contract import Contract

DIALECT = "debezium"
# Characters that no Avro name can have. Debezium writes an underscore for each.
_NO_NAME = re.compile(r"[^A-Za-z0-9_.]")
CONNECT_NAME = "connect.name"
_KINDS = {"int": "int32", "long": "int64", "record": "struct", "enum": "string", "fixed": "bytes"}
_LOGICAL = {
    "decimal": "org.apache.kafka.connect.data.Decimal",
    "date": "org.apache.kafka.connect.data.Date",
    "time-millis": "org.apache.kafka.connect.data.Time",
    "time-micros": "io.debezium.time.MicroTime",
    "timestamp-millis": "org.apache.kafka.connect.data.Timestamp",
    "timestamp-micros": "io.debezium.time.MicroTimestamp",
    "timestamp-nanos": "io.debezium.time.NanoTimestamp",
    "local-timestamp-millis": "io.debezium.time.Timestamp",
    "local-timestamp-micros": "io.debezium.time.MicroTimestamp",
    "local-timestamp-nanos": "io.debezium.time.NanoTimestamp",
}


def schema_fault(schema_id: str, schemas: Mapping[str, str], side: Side = "value") -> Outcome | None:
    """Returns why records of a schema cannot be read, or None if they can."""
    text = schemas.get(schema_id)
    if text is None:
        which = f"no schema for the id {schema_id}" + (" of the key" if side == "key" else "")
        what = (
            f"{which}: the registry does not know it, the connection has no schema.registry.url, or this is "
            "Avro without a frame"
        )
        return Outcome(change.QUARANTINED, frames.UNKNOWN_SCHEMA, what)
    try:
        avro.schema(text)
    except UnusableSchema as error:
        return frames.unusable(schema_id, error, DIALECT, side).outcome
    return None


def block(node: Node) -> dict[str, Any]:
    """Returns Connect's schema block for an Avro type."""
    said = node.properties
    kind = said.get("connect.type") or _KINDS.get(node.kind, node.kind)
    logical = str(said.get("logicalType"))
    schema_block: dict[str, Any] = {"type": kind, "optional": node.nullable}
    schema_block["name"] = said.get(CONNECT_NAME) or _LOGICAL.get(logical)
    schema_block["parameters"] = dict(_parameters(said, logical))
    if node.default is not None:
        schema_block["default"] = _default(node.default, kind)
    if node.kind == "record":
        # Connect gives a struct's record the name of the struct.
        schema_block["name"] = schema_block["name"] or node.name
        schema_block["fields"] = [{**block(inner), "field": name} for name, inner in node.fields.items()]
    return schema_block


def _default(default: Any, kind: str) -> Any:
    """Returns a DEFAULT as a block writes it: bytes in base64, where Avro has one character for each byte."""
    try:
        is_bytes = kind == "bytes" and isinstance(default, str)
        return b64encode(default.encode("latin-1")).decode() if is_bytes else default
    except UnicodeEncodeError:
        return default


def _parameters(said: Mapping[str, Any], logical: str) -> Iterator[tuple[str, Any]]:
    if logical == "decimal":
        yield from (("scale", said.get("scale", 0)), ("connect.decimal.precision", said.get("precision", 38)))
    stated = said.get("connect.parameters")
    yield from (stated.items() if isinstance(stated, dict) else ())


class AvroSchema(NamedTuple):
    """The table, columns and database of the messages of one topic and schema.

    `table` is None if the messages are of no table of the feed.
    """

    table: str | None = None
    # The table's name in the messages.
    source_table: str = ""
    columns: Contract | None = None
    database: str | None = None
    # Why the messages cannot be read, if they cannot.
    fault: Outcome | None = None


def by_schema(
    samples: Iterable[Sample], schemas: Mapping[str, str]
) -> dict[tuple[str, str, str], list[Sample]]:
    """Groups framed messages by topic, schema id and, if a schema has several tables, table; else `""`."""
    alike: dict[tuple[str, str], list[Sample]] = {}
    for sample in samples:
        alike.setdefault((sample.topic, avro.schema_id(sample.value or b"")), []).append(sample)
    apart: dict[tuple[str, str, str], list[Sample]] = {}
    # A registry counts its ids up. The later schemas of a table come last, and the last one holds.
    for place in sorted(alike, key=lambda place: (place[0], len(place[1]), place[1])):
        tables = [table_in(sample.value or b"", sample.topic, schemas) for sample in alike[place]]
        is_shared = len(set(tables) - {None}) > 1
        for sample, table in zip(alike[place], tables, strict=True):
            apart.setdefault((*place, table or "" if is_shared else ""), []).append(sample)
    return apart


def table_in(value: bytes, topic: str, schemas: Mapping[str, str]) -> str | None:
    """Returns `schema.table` from the `source` of a framed record, or None if absent or unreadable."""
    schema = _schema_of(value, schemas)
    payload = None if schema is None else _example(Sample(topic, None, value), schema)
    return None if payload is None else source_name(payload, topic)


def may_be_of_several(value: bytes, topic: str, schemas: Mapping[str, str]) -> bool:
    """Returns whether the schema of a framed record is not named after the record's table.

    Debezium's topic routers (`ByLogicalTableRouter`, `ToLogicalTopicRouter`) name the schemas of all their
    tables after the topic, so that tables of the same columns share one.
    """
    schema, table = _schema_of(value, schemas), table_in(value, topic, schemas)
    return schema is not None and table is not None and _NO_NAME.sub("_", table) != _table_of(schema)


def _schema_of(value: bytes, schemas: Mapping[str, str]) -> Schema | None:
    try:
        return avro.schema(schemas.get(avro.schema_id(value), ""))
    except UnusableSchema:
        return None


def _table_of(schema: Schema) -> str:
    """Returns the table in the schema's name, `<prefix>.<schema>.<table>.Envelope`."""
    return ".".join(schema.root.name.split(".")[-3:-1])


def avro_schema(samples: Sequence[Sample], feed: Feed, schemas: Mapping[str, str]) -> AvroSchema:
    """Finds table, columns and database from the sampled messages of one topic, schema and table."""
    first = samples[0]
    schema_id = avro.schema_id(first.value or b"")
    why = schema_fault(schema_id, schemas)
    if why is not None:
        return AvroSchema(fault=why)
    schema = avro.schema(schemas[schema_id])
    if not {"op", "source"} <= schema.root.fields.keys():
        return AvroSchema()
    read = ((sample, _example(sample, schema)) for sample in samples)
    sample, payload = next((pair for pair in read if pair[1] is not None), (first, None))
    # If no sample can be read, the schema's name tells the table.
    name = _table_of(schema) if payload is None else source_name(payload, sample.topic)
    config = None if name is None else feed.table(name)
    if name is None or config is None:
        return AvroSchema()
    columns = contract_of(config, {"schema": block(schema.root)}, json_object(sample.key))
    database = None if payload is None else payload["source"].get("db")
    return AvroSchema(config.table, name, columns, database if isinstance(database, str) else None)


def _example(sample: Sample, schema: Schema) -> Mapping[str, Any] | None:
    """Returns the record of a framed message, or None if it is broken."""
    try:
        return schema.record((sample.value or b"")[avro.FRAME_BYTES :], "replace")
    except BrokenRecord:
        return None


def described(
    samples: Mapping[tuple[str, str, str], Iterable[Sample]],
    read: Mapping[tuple[str, str, str], AvroSchema],
    schemas: Mapping[str, str],
) -> Iterator[Described]:
    """Yields the samples of the feed's tables with their blocks; a broken sample has an empty payload."""
    for place, schema in read.items():
        if schema.table is not None:
            writer = avro.schema(schemas[place[1]])
            columns = block(writer.root)
            for sample in samples[place]:
                yield Described(schema.source_table, columns, _example(sample, writer) or {})
