"""Connect's Avro schemas: as the schema block that says the same, and why one cannot be used.

`connect.name` is the block's `name`, `connect.parameters` its `parameters`. So columns are found in an Avro
schema as in a block.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from changeledger.dialects.messages import frames
from changeledger.dialects.messages.frames import Side
from changeledger.dialects.messages.message_rows import Outcome
from changeledger.kernels import avro
from changeledger.kernels.avro import Node, UnusableSchema
from changeledger.model import change

DIALECT = "debezium"
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
    """Why records of a schema cannot be read."""
    text = schemas.get(schema_id)
    if text is None:
        which = f"no schema of the id {schema_id}" + (" of the key" if side == "key" else "")
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
    """Connect's schema block of a type."""
    said = node.properties
    kind = said.get("connect.type") or _KINDS.get(node.kind, node.kind)
    logical = str(said.get("logicalType"))
    schema_block: dict[str, Any] = {"type": kind, "optional": node.nullable}
    schema_block["name"] = said.get("connect.name") or _LOGICAL.get(logical) or _record_name(node)
    schema_block["parameters"] = dict(_parameters(said, logical))
    if node.default is not None:
        schema_block["default"] = node.default
    if node.kind == "record":
        schema_block["fields"] = [{**block(inner), "field": name} for name, inner in node.fields.items()]
    return schema_block


def _record_name(node: Node) -> str | None:
    """Connect names a struct's record as it names the struct."""
    return node.name if node.kind == "record" else None


def _parameters(said: Mapping[str, Any], logical: str) -> Iterator[tuple[str, Any]]:
    if logical == "decimal":
        yield from (("scale", said.get("scale", 0)), ("connect.decimal.precision", said.get("precision", 38)))
    stated = said.get("connect.parameters")
    yield from (stated.items() if isinstance(stated, dict) else ())
