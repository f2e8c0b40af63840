"""Converts Qlik's enveloped JSON messages to the same messages in Avro.

Metadata carries its own schema and that of the data (`dataSchema`); data refers to it by `messageSchemaId`.
Exact numbers and dates are Avro's logical types, and masks are bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import date
from decimal import Decimal
from typing import Any

from sourcelab.avro import record, written
from sourcelab.messages import Message

_Schema = dict[str, Any]

_KINDS = {
    "BOOLEAN": "boolean",
    **dict.fromkeys(("INT1", "INT2", "INT4", "UINT1", "UINT2"), "int"),
    **dict.fromkeys(("INT8", "UINT4"), "long"),
    "REAL4": "float",
    "REAL8": "double",
    "DATE": {"type": "int", "logicalType": "date"},
    "BYTES": "bytes",
    "BLOB": "bytes",
}


def messages(plain: Iterable[Message]) -> Iterator[Message]:
    """Converts messages. `plain` begins with the metadata of each table."""
    columns: dict[str, dict[str, Any]] = {}
    for message in plain:
        envelope = json.loads(message.value or b"{}")
        inner = envelope["message"]
        if envelope["type"] == "MD":
            columns[inner["schemaId"]] = inner["tableStructure"]["tableColumns"]
            body = inner | {"dataSchema": json.dumps(_data(columns[inner["schemaId"]]))}
            schema_fields = {"messageSchema": json.dumps(_METADATA), "message": written(_METADATA, body)}
        else:
            schema_id = inner["headers"].pop("externalSchemaId")
            schema = _data(columns[schema_id])
            schema_fields = {
                "messageSchemaId": schema_id,
                "message": written(schema, _change(inner, columns[schema_id])),
            }
        empty = {"headers": None, "messageSchemaId": None, "messageSchema": None}
        value = {"magic": b"atMSG", "type": envelope["type"], **empty, **schema_fields}
        yield message._replace(value=written(_ENVELOPE, value))


def _optional(kind: Any) -> list[Any]:
    return ["null", kind]


_ENVELOPE = record(
    "MessageEnvelope",
    {
        "magic": {"type": "fixed", "name": "Magic", "size": 5},
        "type": "string",
        "headers": _optional({"type": "map", "values": "string"}),
        "messageSchemaId": _optional("string"),
        "messageSchema": _optional("string"),
        "message": "bytes",
    },
)
_LINEAGE = {**dict.fromkeys(("server", "task", "schema", "table"), "string"), "tableVersion": "int"}
_COLUMN = {"ordinal": "int", "type": "string"} | dict.fromkeys(
    ("length", "precision", "scale", "primaryKeyPosition"), "int"
)
_COLUMNS = {"type": "map", "values": record("Column", _COLUMN)}
_METADATA = record(
    "MetadataRecord",
    {
        "schemaId": "string",
        "lineage": record("Lineage", _LINEAGE | {"timestamp": "string"}),
        "tableStructure": record("TableStructure", {"tableColumns": _COLUMNS}),
        "dataSchema": "string",
    },
)
_MASKS = ("changeMask", "columnMask")
_OPERATION = {"type": "enum", "name": "operation", "symbols": ["INSERT", "UPDATE", "DELETE", "REFRESH"]}
_TEXTS = ("changeSequence", "timestamp", "streamPosition", "transactionId")
_HEADERS = {
    "operation": _OPERATION,
    **dict.fromkeys(_TEXTS, _optional("string")),
    **dict.fromkeys(_MASKS, _optional("bytes")),
    "transactionEventCounter": _optional("long"),
    "transactionLastEvent": _optional("boolean"),
}


def _data(columns: dict[str, Any]) -> _Schema:
    row = record("Data", {name: _optional(_kind(column)) for name, column in columns.items()})
    return record(
        "DataRecord",
        {
            "schema": "string",
            "table": "string",
            "headers": record("Headers", _HEADERS),
            "data": _optional(row),
            "beforeData": _optional("Data"),
        },
    )


def _kind(column: dict[str, Any]) -> Any:
    if column["type"] == "NUMERIC":
        sizes = {"precision": column["precision"], "scale": column["scale"]}
        return {"type": "bytes", "logicalType": "decimal", **sizes}
    return _KINDS.get(column["type"], "string")


def _change(message: dict[str, Any], columns: dict[str, Any]) -> dict[str, Any]:
    headers = message["headers"]
    masks = {name: headers[name] and bytes.fromhex(headers[name]) for name in _MASKS}
    sides = {side: _row(message[side], columns) for side in ("data", "beforeData")}
    return message | sides | {"headers": headers | masks}


def _row(row: dict[str, Any] | None, columns: dict[str, Any]) -> dict[str, Any] | None:
    return None if row is None else {name: _value(columns[name], value) for name, value in row.items()}


def _value(column: dict[str, Any], value: Any) -> Any:
    if value is None:
        return None
    if column["type"] == "NUMERIC":
        return Decimal(value)
    if column["type"] == "DATE":
        return date.fromisoformat(value)
    return bytes.fromhex(value) if column["type"] in {"BYTES", "BLOB"} else value
