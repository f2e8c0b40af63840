"""What Debezium messages tell of a table: its name in `source`, its columns and key in the schema blocks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from changeledger.config import Feed, TableConfig
from changeledger.contract import Column, Contract, SqlType
from changeledger.dialects.base import Sample
from changeledger.dialects.debezium_unions import is_wrapped, row_of
from changeledger.errors import ContractError

# Semantic types of the schema block (`name`), as the SQL Server type that keeps what they can tell.
_SEMANTIC = {
    "io.debezium.time.Date": "date",
    "org.apache.kafka.connect.data.Date": "date",
    "io.debezium.time.Time": "time(3)",
    "org.apache.kafka.connect.data.Time": "time(3)",
    "io.debezium.time.MicroTime": "time(6)",
    "io.debezium.time.NanoTime": "time(7)",
    "io.debezium.time.Timestamp": "datetime2(3)",
    "org.apache.kafka.connect.data.Timestamp": "datetime2(3)",
    "io.debezium.time.MicroTimestamp": "datetime2(6)",
    "io.debezium.time.NanoTimestamp": "datetime2(7)",
    "io.debezium.time.ZonedTimestamp": "datetimeoffset",
    # Text in ISO 8601, of whatever precision the column has.
    "io.debezium.time.IsoDate": "date",
    "io.debezium.time.IsoTime": "time(7)",
    "io.debezium.time.IsoTimestamp": "datetime2(7)",
    "io.debezium.data.Uuid": "uniqueidentifier",
    "io.debezium.data.Xml": "xml",
}
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
# Parameters of a field, where the connector is told to send the source's types.
_SOURCE_COLUMN = "__debezium.source.column"
# The greatest length that is not `max`.
_SIZED = {"char": 8000, "varchar": 8000, "nchar": 4000, "nvarchar": 4000, "binary": 8000, "varbinary": 8000}
# Connect's own types; whatever else a connector sends keeps its JSON text.
_PLAIN = {
    "boolean": "bit",
    "int8": "smallint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "float": "real",
    "float32": "real",
    "double": "float",
    "float64": "float",
    "bytes": "varbinary(max)",
}


def discover(samples: Sequence[Sample], feed: Feed) -> dict[str, tuple[str, Contract | None]]:
    """By topic its table, and the table's columns where a schema block or the feed's YAML tells them.

    A later sample of a topic extends the columns of an earlier one.
    """
    found: dict[str, tuple[str, Contract | None]] = {}
    for sample in samples:
        message = json_object(sample.value)
        config = table_of(_payload(message), sample.topic, feed)
        if config is None:
            continue
        told = contract_of(config, message, json_object(sample.key))
        _, known = found.get(sample.topic, (config.table, None))
        found[sample.topic] = config.table, _together(known, told)
    return found


def union_topics(samples: Sequence[Sample]) -> set[str]:
    """The topics whose messages are Avro's own JSON (`debezium_unions`)."""
    return {sample.topic for sample in samples if is_wrapped(_payload(json_object(sample.value)))}


def table_of(payload: Mapping[str, Any], topic: str, feed: Feed) -> TableConfig | None:
    """The feed's table that a change event tells; None where it is none, or of another table."""
    source = payload.get("source")
    if not isinstance(source, dict) or "op" not in payload:
        return None
    return feed.table(_table_name(source, topic))


def named_columns(samples: Sequence[Sample], table: str) -> Contract:
    """The columns by the members of images and keys, all of them text: messages without a schema block."""
    names: dict[str, None] = {}
    key: dict[str, None] = {}
    for sample in samples:
        payload = _payload(json_object(sample.value))
        for side in ("before", "after"):
            image = row_of(payload.get(side)) or payload.get(side)
            names |= dict.fromkeys(image if isinstance(image, dict) else ())
        key |= dict.fromkeys(_payload(json_object(sample.key)))
    place = {name: at for at, name in enumerate((n for n in key if n in names), 1)}
    return Contract(
        table=table,
        columns=tuple(
            Column(name=n, type="nvarchar(max)", ordinal=at, key_position=place.get(n, 0))
            for at, n in enumerate(names, 1)
        ),
    )


def _together(known: Contract | None, told: Contract | None) -> Contract | None:
    if known is None or told is None:
        return told or known
    try:
        return known.evolved_to(told)
    except ContractError:
        # For normalize to find, against what the table has published.
        return told


def _table_name(source: Mapping[str, Any], topic: str) -> str:
    """`schema.table`; connectors of the 0.x line told it only by the topic, `<prefix>.<schema>.<table>`."""
    if source.get("table") is None:
        return ".".join(topic.split(".")[-2:])
    return f"{source.get('schema')}.{source.get('table')}"


def contract_of(config: TableConfig, message: Mapping[str, Any], key: Mapping[str, Any]) -> Contract | None:
    """The columns by a message's schema block, the key by its key's, unless the feed states them."""
    key_names = config.key or tuple(_field_names(key.get("schema")) or _payload(key))
    if config.columns:
        columns = [(c.name, c.type, c.nullable) for c in config.columns]
    else:
        columns = [
            (str(f["field"]), column_type(f), bool(f.get("optional", True))) for f in _row_fields(message)
        ]
    if not columns:
        return None
    place = {name: at for at, name in enumerate(key_names, 1)}
    return Contract(
        table=config.table,
        columns=tuple(
            Column(name=n, type=t, nullable=null, ordinal=at, key_position=place.get(n, 0))
            for at, (n, t, null) in enumerate(columns, 1)
        ),
    )


def column_type(field: Mapping[str, Any]) -> str:
    """The SQL Server type for one field of a schema block.

    A connector that sends the source's own type (`column.propagate.source.type`) is believed where the lake
    holds that type as it holds the one that the field tells: other databases have types of the same names.
    """
    parameters = field.get("parameters") or {}
    told = _told_type(field.get("name"), str(field.get("type")), parameters)
    stated = _source_type(parameters)
    try:
        alike = stated is not None and SqlType.parse(stated).spark == SqlType.parse(told).spark
    except ContractError:
        alike = False
    return stated if stated is not None and alike else told


def _told_type(name: object, kind: str, parameters: Mapping[str, Any]) -> str:
    if name == _DECIMAL:
        precision = parameters.get("connect.decimal.precision", 38)
        return f"decimal({int(precision)},{int(parameters.get('scale', 0))})"
    return _SEMANTIC.get(str(name)) or _PLAIN.get(kind, "nvarchar(max)")


def _source_type(parameters: Mapping[str, Any]) -> str | None:
    kind = parameters.get(f"{_SOURCE_COLUMN}.type")
    if kind is None:
        return None
    kind = str(kind).lower().removesuffix(" identity")
    length, scale = (parameters.get(f"{_SOURCE_COLUMN}.{part}") for part in ("length", "scale"))
    if kind in _SIZED:
        return f"{kind}({'max' if int(length or 0) > _SIZED[kind] else int(length or 1)})"
    if kind in {"decimal", "numeric"}:
        return f"{kind}({int(length or 18)},{int(scale or 0)})"
    return f"{kind}({int(scale)})" if kind in {"datetime2", "time"} and scale is not None else kind


def _row_fields(message: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    """The fields of the row, from the envelope's schema; `before` and `after` have the same ones."""
    schema = message.get("schema")
    if not isinstance(schema, dict):
        return []
    for part in schema.get("fields", []):
        if part.get("field") in {"after", "before"}:
            return list(part.get("fields", []))
    return []


def _field_names(schema: object) -> list[str]:
    return [str(f["field"]) for f in schema.get("fields", [])] if isinstance(schema, dict) else []


def _payload(message: Mapping[str, Any]) -> Mapping[str, Any]:
    inner = message.get("payload")
    return inner if isinstance(inner, dict) else message


def json_object(raw: bytes | None) -> Mapping[str, Any]:
    """The JSON object in `raw`, empty where there is none: a broken sample teaches nothing."""
    try:
        value = json.loads(raw or b"{}")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
