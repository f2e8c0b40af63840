"""Qlik's messages in Avro as the JSON that the task would have written.

In Qlik's own envelope, itself in Avro, which begins with the letters of its magic: a metadata message brings
its schema along, data names one that a metadata message has told (`dataSchema`). Or framed, by a registry.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import reduce
from operator import and_
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from changeledger.contract import SqlType
from changeledger.dialects import avro_frames
from changeledger.dialects.avro import MEMBERS, TEXT, Node, Schema, UnusableSchema, Wanted
from changeledger.dialects.debezium_values import decimal_of_bytes
from changeledger.dialects.qlik_messages_metadata import MAGIC
from changeledger.plans import Keep

# A column of the records: the message as JSON, of one that came in JSON the message itself.
JSON = "json"
# Why a message in Avro cannot be read; NULL where it can.
FAULT, FAULT_DETAIL = "avro_fault", "avro_fault_detail"

_HEADERS = (
    "operation", "changeSequence", "timestamp", "streamPosition", "transactionId", "changeMask", "columnMask",
    "externalSchemaId", "transactionEventCounter", "transactionLastEvent",
)  # fmt: skip
_DATA: Wanted = {
    "schema": TEXT,
    "table": TEXT,
    "headers": dict.fromkeys(_HEADERS, TEXT),
    "data": MEMBERS,
    "beforeData": MEMBERS,
}
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
_KEEP_NULLS = "map('ignoreNullFields', 'false')"


class Told(NamedTuple):
    """The messages with `JSON` and `FAULT`; the schemas of data that metadata among them tells, by id."""

    messages: DataFrame
    schemas: Mapping[str, str]


def is_enveloped() -> Column:
    return F.coalesce(F.col("value").startswith(F.lit(MAGIC.encode())), F.lit(False))


def _is_avro() -> Column:
    return is_enveloped() | avro_frames.is_framed()


def read(raw: DataFrame, schemas: Mapping[str, str], keep: Keep) -> Told | None:
    """None where all is JSON; the lake's own statistics of `value` answer that for whole files."""
    framed = avro_frames.framed(raw)
    value = F.col("value")
    # The letters alone: no JSON is between them and the ones after.
    looked = raw.where((value >= F.lit(MAGIC.encode())) & (value < F.lit(MAGIC.encode() + b"\xff")))
    if not framed and looked.isEmpty():
        return None
    by_frame = {one.schema_id: one.frame for one in framed}
    parts = [raw.where(~_is_avro()).withColumns({JSON: value, **_fault(None, None)})]
    for schema_id, frame in by_frame.items():
        of_frame = raw.where(value.startswith(F.lit(frame)))
        parts.append(_of_schema(of_frame, avro_frames.record(), schema_id, schemas))
    enveloped = keep(_opened(raw.where(is_enveloped())))
    in_json = raw.where(~_is_avro() & F.contains(value, F.lit(b'"dataSchema"'))).withColumn(JSON, value)
    found = _metadata_and_data(enveloped, in_json, schemas)
    together = reduce(lambda one, other: one.unionByName(other), [*parts, *found.messages])
    return Told(keep(together), found.schemas)


class _Enveloped(NamedTuple):
    messages: list[DataFrame]
    schemas: Mapping[str, str]


def _opened(raw: DataFrame) -> DataFrame:
    value = F.col("value")
    read = raw.withColumn("avro_marked", _ENVELOPE.read(value))
    read = read.withColumn("avro_body", _ENVELOPE.body(F.col("avro_marked"), value))
    names = {"kind": "f1", "schema_id": "f3", "own_schema": "f4", "message": "f5"}
    opened = {f"avro_{name}": F.col("avro_body")[field] for name, field in names.items()}
    # Each message is found again by these, from here, where text is valid: bytes that are none stay no name.
    opened |= {name: F.make_valid_utf8(opened[name]) for name in _LABEL}
    return read.withColumns(opened).drop("avro_marked", "avro_body")


def _metadata_and_data(opened: DataFrame, in_json: DataFrame, schemas: Mapping[str, str]) -> _Enveloped:
    """Metadata first, in either format: what it tells of schemas is needed to read the data."""
    labels = opened.select(*_LABEL).distinct().collect()
    if not labels:
        return _Enveloped([], {})
    parts, told = [], _schemas_in(in_json)
    for label in (one for one in labels if one["avro_own_schema"] is not None):
        these = opened.where(_has(label))
        read = _of_schema(these, F.col("avro_message"), "own", {"own": label["avro_own_schema"]})
        parts.append(read.withColumn(JSON, _wrapped(label["avro_kind"], None)))
        told |= _schemas_in(parts[-1])
    known = {**told, **schemas}
    unopened = opened.where(F.col("avro_kind").isNull())
    parts.append(unopened.withColumns({JSON: _nothing(), **_fault("malformed_avro", None)}))
    for label in (one for one in labels if one["avro_kind"] and one["avro_own_schema"] is None):
        these = opened.where(_has(label))
        read = _of_schema(these, F.col("avro_message"), _of_message(label["avro_schema_id"]), known)
        parts.append(read.withColumn(JSON, _wrapped(label["avro_kind"], label["avro_schema_id"])))
    return _Enveloped([part.drop(*_OPENED) for part in parts], told)


_LABEL = ("avro_kind", "avro_schema_id", "avro_own_schema")


def _has(label: Row) -> Column:
    return reduce(and_, (F.col(name).eqNullSafe(F.lit(label[name])) for name in _LABEL))


def _schemas_in(metadata: DataFrame) -> dict[str, str]:
    text = F.make_valid_utf8(F.col(JSON).cast("string"))

    def says(name: str) -> Column:
        either = (F.get_json_object(text, f"$.{place}{name}") for place in ("message.", ""))
        return F.coalesce(*either).alias(name)

    rows = metadata.select(says("schemaId"), says("dataSchema")).distinct().collect()
    told = [(row["schemaId"], row["dataSchema"]) for row in rows]
    return {_of_message(schema_id): schema for schema_id, schema in told if schema_id and schema}


def _of_message(schema_id: str | None) -> str:
    """The name of a schema that a metadata message tells, beside those of a registry's ids."""
    return f"message {schema_id}"


_OPENED = ("avro_kind", "avro_schema_id", "avro_own_schema", "avro_message")


def _wrapped(kind: str | None, schema_id: str | None) -> Column:
    """The JSON envelope around a message's JSON, or around nothing."""
    outer = json.dumps({"magic": MAGIC, "type": kind, "messageSchemaId": schema_id}, ensure_ascii=False)
    inside = F.coalesce(F.col(JSON).cast("string"), F.lit("{}"))
    return F.concat(F.lit(f'{outer[:-1]}, "message": '), inside, F.lit("}")).cast("binary")


def _of_schema(raw: DataFrame, record: Column, schema_id: str, schemas: Mapping[str, str]) -> DataFrame:
    """`raw` with `JSON` and why there is none."""
    text = schemas.get(schema_id)
    if text is None:
        why = f"no Avro schema of the id {schema_id}: neither metadata nor a registry has told it"
        return raw.withColumns({JSON: _nothing(), **_fault("unknown_schema", why)})
    try:
        schema = Schema(text)
    except UnusableSchema as error:
        why = f"the Avro schema {schema_id}: {error}"[:500]
        return raw.withColumns({JSON: _nothing(), **_fault("unusable_schema", why)})
    columns = [F.col(name) for name in raw.columns]
    read = raw.withColumn("avro_record", record)
    read = read.withColumn("read_marked", schema.read(F.col("avro_record")))
    read = read.withColumn("read_body", schema.body(F.col("read_marked"), F.col("avro_record")))
    is_data = "headers" in schema.root.fields
    struct = schema.struct("read_body", _DATA, _leaf)
    told = F.expr(f"to_json({struct}, {_KEEP_NULLS})" if is_data else schema.json("read_body"))
    broken = F.when(F.col(JSON).isNull(), F.lit("malformed_avro"))
    return read.select(*columns, told.cast("binary").alias(JSON)).withColumns(
        {FAULT: broken, FAULT_DETAIL: F.lit(None).cast("string")}
    )


def _nothing() -> Column:
    return F.lit(None).cast("binary")


def _fault(reason: str | None, detail: str | None) -> dict[str, Column]:
    return {FAULT: F.lit(reason).cast("string"), FAULT_DETAIL: F.lit(detail).cast("string")}


def _leaf(node: Node, path: str) -> str | None:
    """Qlik's JSON writes bytes, masks among them, as hex digits; what Avro counts, as text of its type."""
    logical = node.properties.get("logicalType")
    precision, scale = (node.properties.get(name) or 0 for name in ("precision", "scale"))
    if logical == "decimal" and node.kind == "bytes" and 0 < precision <= 38:
        number = decimal_of_bytes(f"hex({path})", SqlType("decimal", precision, scale))
        # What is no number of that type stays to be seen, and fits no column.
        return f"CASE WHEN {path} IS NOT NULL THEN coalesce(CAST({number} AS STRING), 'x') END"
    if logical == "date":
        return f"CAST(date_add(DATE'1970-01-01', {path}) AS STRING)"
    if logical in {"timestamp-millis", "timestamp-micros"}:
        micros = path if logical == "timestamp-micros" else f"try_multiply({path}, 1000L)"
        return f"date_format(timestamp_micros({micros}), \"yyyy-MM-dd'T'HH:mm:ss.SSSSSS\")"
    return f"hex({path})" if node.kind in {"bytes", "fixed"} else None
