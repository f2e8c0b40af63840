"""Recognizes control messages: a connector's heartbeats, transactions, schema changes and notifications, and
the signals that are sent to it.

A row that a transform took out of its envelope can have columns of any name, even a `status` of BEGIN.
Therefore each kind is recognized by all of its members, or by its key or one of Debezium's own schemas.
Sources: Debezium's SchemaFactory, and its pages on notifications, signals (also "Defining a custom signal
action"), transaction metadata and schema changes.
"""

from __future__ import annotations

from changeledger.dialects.messages.foreign import payload_of
from changeledger.kernels import json_text, lsn
from changeledger.kernels.json_text import Members, NotJson

HEARTBEAT, TRANSACTION = "heartbeat", "transaction"
SCHEMA_CHANGE, NOTIFICATION, SIGNAL = "schema_change", "notification", "signal"
# The default of `topic.heartbeat.prefix`.
_HEARTBEAT_TOPICS = "__debezium-heartbeat"
# Endings of the names of the values' schemas; what precedes them is the connector's.
_SCHEMAS = {
    "io.debezium.connector.common.Heartbeat": HEARTBEAT,
    "io.debezium.connector.common.TransactionMetadataValue": TRANSACTION,
    "io.debezium.connector.common.Notification": NOTIFICATION,
    ".SchemaChangeValue": SCHEMA_CHANGE,
}
_TRANSACTION = {"status", "id", "event_count", "data_collections", "ts_ms"}
_COUNTS = {"event_count", "data_collections"}
_NOTIFICATION = {"id", "type", "aggregate_type", "additional_data", "timestamp"}
_SIGNAL = {"id", "type", "data"}
_SIGNALS = {
    "execute-snapshot", "stop-snapshot", "pause-snapshot", "resume-snapshot", "log", "schema-changes",
    "set-binlog-position",
}  # fmt: skip


def control_kind(message: Members, topic: str, key: bytes | None, schema: str | None = None) -> str | None:
    """Returns the kind of a control message, or None for any other. `schema`: the name of its Avro schema."""
    payload = payload_of(message)
    name = _schema_of(message) if schema is None else schema
    for end, kind in _SCHEMAS.items():
        if name is not None and name.endswith(end):
            return kind
    if "ts_ms" in payload and topic.startswith(_HEARTBEAT_TOPICS):
        return HEARTBEAT
    if payload.keys() == {"ts_ms"} and _names_server(key):
        return HEARTBEAT
    if _is_signal(payload, key):
        return SIGNAL
    kinds = (
        (TRANSACTION, _is_transaction),
        (SCHEMA_CHANGE, _is_schema_change),
        (NOTIFICATION, _is_notification),
    )
    return next((kind for kind, is_one in kinds if is_one(payload)), None)


def _schema_of(message: Members) -> str | None:
    """Returns the name in a message's schema block."""
    block = message.get("schema")
    if block is None or not json_text.is_object(block):
        return None
    return json_text.text(json_text.members(block).get("name"))


def _names_server(key: bytes | None) -> bool:
    """Returns whether the key is that of a heartbeat."""
    try:
        return key is not None and payload_of(json_text.members(key)).keys() == {"serverName"}
    except NotJson:
        return False


def _is_transaction(payload: Members) -> bool:
    status, own_id = (json_text.text(payload.get(name)) for name in ("status", "id"))
    if status not in {"BEGIN", "END"} or own_id is None or not payload.keys() <= _TRANSACTION:
        return False
    # Members that are NULL can be left out. The id of a transaction of SQL Server is its commit LSN.
    return payload.keys() >= _COUNTS or lsn.parse(own_id) is not None


def _is_signal(payload: Members, key: bytes | None) -> bool:
    """Returns whether it is a signal of the channel `kafka`, whose data is an object or the text of one.

    A signal of a custom action has any type, and is keyed by the connector's prefix. It is not a row: a row's
    key is an object, and no column of a row taken out of its envelope is one.
    """
    if not _SIGNAL - {"id"} <= payload.keys() <= _SIGNAL:
        return False
    is_keyed_by_text = key is not None and not key.lstrip().startswith(b"{") and key.isascii()
    if is_keyed_by_text and (key or b"").decode().isprintable() and json_text.is_object(payload["data"]):
        return True
    data = json_text.text(payload["data"]) or ""
    return json_text.text(payload["type"]) in _SIGNALS and data.lstrip().startswith("{")


def _is_schema_change(payload: Members) -> bool:
    source = payload.get("source")
    is_whole = "databaseName" in payload and bool(payload.keys() & {"ddl", "tableChanges"})
    return is_whole and source is not None and json_text.is_object(source) and "op" not in payload


def _is_notification(payload: Members) -> bool:
    return _NOTIFICATION - {"timestamp"} <= payload.keys() <= _NOTIFICATION
