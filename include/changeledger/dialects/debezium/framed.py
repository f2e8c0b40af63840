"""Which table Avro messages of one topic and schema are of, and how their columns are written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from changeledger.config.feed import Feed
from changeledger.dialects.debezium.avro import block, schema_fault
from changeledger.dialects.debezium.plain import json_object
from changeledger.dialects.debezium.schema_block import Described, contract_of, source_name
from changeledger.dialects.messages.message_rows import Outcome
from changeledger.dialects.messages.samples import Sample
from changeledger.kernels import avro
from changeledger.kernels.avro import BrokenRecord, Schema
from changeledger.model.contract import Contract


class AvroSchema(NamedTuple):
    """What the messages of one topic and schema are. Without a table they are of none of the feed's."""

    table: str | None = None
    # As the messages call it.
    source_table: str = ""
    columns: Contract | None = None
    database: str | None = None
    # Why they cannot be read.
    fault: Outcome | None = None


def by_schema(samples: Iterable[Sample]) -> dict[tuple[str, str], list[Sample]]:
    """Framed messages by topic and schema id."""
    alike: dict[tuple[str, str], list[Sample]] = {}
    for sample in samples:
        alike.setdefault((sample.topic, avro.schema_id(sample.value or b"")), []).append(sample)
    return {place: alike[place] for place in sorted(alike)}


def avro_schema(samples: Sequence[Sample], feed: Feed, schemas: Mapping[str, str]) -> AvroSchema:
    """By the first and the last message of one topic and schema."""
    first = samples[0]
    schema_id = avro.schema_id(first.value or b"")
    why = schema_fault(schema_id, schemas)
    if why is not None:
        return AvroSchema(fault=why)
    schema = avro.schema(schemas[schema_id])
    if not {"op", "source"} <= schema.root.fields.keys():
        return AvroSchema()
    for sample in samples:
        payload = _example(sample, schema)
        if payload is None:
            continue
        name = source_name(payload, sample.topic)
        config = None if name is None else feed.table(name)
        if name is None or config is None:
            return AvroSchema()
        columns = contract_of(config, {"schema": block(schema.root)}, json_object(sample.key))
        database = payload["source"].get("db")
        return AvroSchema(config.table, name, columns, database if isinstance(database, str) else None)
    return _by_name(schema, first, feed)


def _example(sample: Sample, schema: Schema) -> Mapping[str, Any] | None:
    """The record of a framed message; None if it is broken."""
    try:
        return schema.record((sample.value or b"")[avro.FRAME_BYTES :], "replace")
    except BrokenRecord:
        return None


def described(
    samples: Mapping[tuple[str, str], Iterable[Sample]],
    read: Mapping[tuple[str, str], AvroSchema],
    schemas: Mapping[str, str],
) -> Iterator[Described]:
    """The samples of the feed's tables, by topic and schema id; one that is broken has an empty payload."""
    for place, schema in read.items():
        if schema.table is not None:
            writer = avro.schema(schemas[place[1]])
            columns = block(writer.root)
            for sample in samples[place]:
                yield Described(schema.source_table, columns, _example(sample, writer) or {})


def _by_name(schema: Schema, sample: Sample, feed: Feed) -> AvroSchema:
    """The table in the schema's own name, `<prefix>.<schema>.<table>.Envelope`: no sample could be read."""
    name = ".".join(schema.root.name.split(".")[-3:-1])
    config = feed.table(name)
    if config is None:
        return AvroSchema()
    columns = contract_of(config, {"schema": block(schema.root)}, json_object(sample.key))
    return AvroSchema(config.table, name, columns)
