"""Debezium's events in Avro, as Connect's converters write them: framed, a schema for each shape of a table.

Connect's Avro schema says what its JSON schema block says: `connect.name` is the block's `name`,
`connect.parameters` its `parameters`. So columns are found in it as in the block.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from changeledger.config import Feed
from changeledger.contract import Contract
from changeledger.dialects import avro_frames, base
from changeledger.dialects.avro import MEMBERS, TEXT, Node, Schema, UnusableSchema, Wanted, wanted_ddl
from changeledger.dialects.avro_frames import Framed
from changeledger.dialects.debezium_schema import DATABASE, Found, contract_of, json_object, table_of

SOURCE: Wanted = dict.fromkeys(
    (
        "connector", "ts_ms", "snapshot", "db", "schema", "table", "change_lsn", "commit_lsn",
        "event_serial_no", "lsn",
    ),
    TEXT,
)  # fmt: skip
ENVELOPE: Wanted = {
    "before": MEMBERS,
    "after": MEMBERS,
    "source": SOURCE,
    "op": TEXT,
    "ts_ms": TEXT,
    "transaction": {"id": TEXT},
}
# What tells a message of no table from another.
CONTROL: Wanted = {
    **dict.fromkeys(("ts_ms", "status", "id", "ddl", "databaseName", "op"), TEXT),
    "source": SOURCE,
}
# Columns of the records: what an Avro one says, as the JSON one would; of others why they cannot be read.
READ, FAULT, FAULT_DETAIL = "avro_read", "avro_fault", "avro_fault_detail"

_KINDS = {"int": "int32", "long": "int64", "record": "struct", "enum": "string", "fixed": "bytes"}
_LOGICAL = {
    "decimal": "org.apache.kafka.connect.data.Decimal",
    "date": "org.apache.kafka.connect.data.Date",
    "time-millis": "org.apache.kafka.connect.data.Time",
    "timestamp-millis": "org.apache.kafka.connect.data.Timestamp",
}


class _Written(NamedTuple):
    """The messages of one topic and schema; the rest where they tell a table of the feed."""

    framed: Framed
    schema: Schema | None
    why_not: tuple[str, str] | None = None
    table: str | None = None
    shape: Contract | None = None
    database: str | None = None


def survey(  # noqa: PLR0913, PLR0917 - what is known of the window's messages
    raw: DataFrame,
    framed: Sequence[Framed],
    in_json: Sequence[base.Told],
    json_topics: set[str],
    feed: Feed,
    known: base.Known,
) -> base.Survey:
    """The survey of messages of which some are `framed`; `in_json` are the others of `json_topics`."""
    written = [_written(one, feed, known.schemas) for one in framed]
    told, topics = list(in_json), set(json_topics)
    database = next((one.database for one in written if one.database is not None), None)
    for one in written:
        if one.table is None or one.schema is None:
            continue
        of_this = one.framed.is_one()
        if one.framed.topic not in topics:
            # What has no frame, a tombstone for one, goes with the first shape of its topic.
            topics.add(one.framed.topic)
            of_this = of_this | ((F.col("topic") == one.framed.topic) & ~avro_frames.is_framed())
        read = _read(raw.where(of_this), one.schema, one.framed, ENVELOPE)
        shape = Found(one.shape).read_by(known.contracts.get(one.table))
        told.append(base.Told(one.table, shape, read.withColumn(DATABASE, F.lit(database).cast("string"))))
    return base.Survey(told, _others(raw, written, topics))


def _others(raw: DataFrame, written: Sequence[_Written], topics: set[str]) -> DataFrame:
    """Messages of no table, with what the Avro ones say, or why they say nothing."""
    nothing = {
        READ: F.lit(None).cast(wanted_ddl(CONTROL)),
        FAULT: F.lit(None).cast("string"),
        FAULT_DETAIL: F.lit(None).cast("string"),
    }
    parts = [raw.where(~avro_frames.is_framed() & ~F.col("topic").isin(list(topics))).withColumns(nothing)]
    for one in written:
        if one.schema is not None and one.table is None:
            read = _read(raw.where(one.framed.is_one()), one.schema, one.framed, CONTROL)
            broken = F.when(F.col(READ).isNull(), F.lit("malformed_avro"))
            parts.append(read.withColumns({FAULT: broken, FAULT_DETAIL: nothing[FAULT_DETAIL]}))
    unread = [one for one in written if one.why_not is not None]
    if unread:
        reason = detail = F.lit(None).cast("string")
        for one in unread:
            assert one.why_not is not None, "chosen by it"
            reason = F.when(one.framed.is_one(), F.lit(one.why_not[0])).otherwise(reason)
            detail = F.when(one.framed.is_one(), F.lit(one.why_not[1])).otherwise(detail)
        any_of_them = raw.where(reduce(or_, (one.framed.is_one() for one in unread)))
        parts.append(any_of_them.withColumns(nothing | {FAULT: reason, FAULT_DETAIL: detail}))
    return reduce(lambda one, other: one.unionByName(other), parts)


def _read(raw: DataFrame, schema: Schema, framed: Framed, wanted: Wanted) -> DataFrame:
    """`raw` with what its records say in `READ`; NULL where a record cannot be read."""
    record, columns = F.col("avro_record"), [F.col(name) for name in raw.columns]
    bytes_of_one = F.when(F.col("value").startswith(F.lit(framed.frame)), avro_frames.record())
    read = raw.withColumn("avro_record", bytes_of_one)
    read = read.withColumn("avro_marked", schema.read(record))
    read = read.withColumn("avro_body", schema.body(F.col("avro_marked"), record))
    return read.select(*columns, F.expr(schema.struct("avro_body", wanted)).alias(READ))


def _written(framed: Framed, feed: Feed, schemas: Mapping[str, str]) -> _Written:
    text = schemas.get(framed.schema_id)
    if text is None:
        why = f"no schema of the id {framed.schema_id}: the registry does not know it, or the feed has none"
        return _Written(framed, None, ("unknown_schema", why))
    try:
        schema = Schema(text)
    except UnusableSchema as error:
        return _Written(framed, None, ("unusable_schema", f"the schema {framed.schema_id}: {error}"[:500]))
    if not {"op", "source"} <= schema.root.fields.keys():
        return _Written(framed, schema)
    for key, value in framed.examples:
        payload = avro_frames.example(value, schema)
        if payload is None:
            continue
        config = table_of(payload, framed.topic, feed)
        if config is None:
            return _Written(framed, schema)
        message = {"schema": block(schema.root)}
        shape = contract_of(config, message, _key(key, schemas))
        return _Written(framed, schema, None, config.table, shape, payload["source"].get("db"))
    return _Written(framed, schema, *_by_name(schema, framed, feed, schemas))


def _by_name(
    schema: Schema, framed: Framed, feed: Feed, schemas: Mapping[str, str]
) -> tuple[None, str | None, Contract | None]:
    """The table in the schema's own name, `<prefix>.<schema>.<table>.Envelope`: no example could be read."""
    config = feed.table(".".join(schema.root.name.split(".")[-3:-1]))
    if config is None:
        return None, None, None
    key, _ = framed.examples[0]
    return None, config.table, contract_of(config, {"schema": block(schema.root)}, _key(key, schemas))


def _key(key: bytes | None, schemas: Mapping[str, str]) -> Mapping[str, Any]:
    """What a message's key says of the table's key: in Avro by its schema alone, else in JSON."""
    one = Framed("", "0", ((key, b""),))
    for schema_id in avro_frames.key_ids(one):
        try:
            return {"schema": block(Schema(schemas.get(schema_id, "")).root)}
        except UnusableSchema:
            return {}
    return json_object(key)


def block(node: Node) -> dict[str, Any]:
    """Connect's schema block of a type."""
    said = node.properties
    kind = said.get("connect.type") or _KINDS.get(node.kind, node.kind)
    logical = str(said.get("logicalType"))
    told: dict[str, Any] = {"type": kind, "optional": node.nullable}
    told["name"] = said.get("connect.name") or _LOGICAL.get(logical)
    told["parameters"] = dict(_parameters(said, logical))
    if node.kind == "record":
        told["fields"] = [{**block(inner), "field": name} for name, inner in node.fields.items()]
    return told


def _parameters(said: Mapping[str, Any], logical: str) -> Iterator[tuple[str, Any]]:
    if logical == "decimal":
        yield from (("scale", said.get("scale", 0)), ("connect.decimal.precision", said.get("precision", 38)))
    stated = said.get("connect.parameters")
    yield from (stated.items() if isinstance(stated, dict) else ())
