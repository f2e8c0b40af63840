"""Recognizes messages that their feed's dialect cannot read, such as another dialect's or a bare row.

Only messages that the dialect has already refused as not of its form are examined. A message is recognized by
more than one member, because a row can have a column of any name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import pairwise

import pyarrow as pa

from changeledger.dialects.messages import enclosed, frames
from changeledger.dialects.messages.enclosed import EVENTS
from changeledger.dialects.messages.frames import Frame, Headers
from changeledger.dialects.messages.message_rows import Outcome
from changeledger.dialects.messages.problems import Problem
from changeledger.kernels import avro, json_text
from changeledger.kernels.json_text import UNREADABLE, Members, NotJson, in_lower_case
from changeledger.model import change
from changeledger.model.column_names import shown

# The reason for a message of each dialect in a feed of another.
_REASONS = {"debezium": "debezium_event", "ces": "ces_event", "qlik_messages": "qlik_message"}
# The members that Kafka Connect's converters put around a record.
_WRAPPING = frozenset({"payload", "schema", "schemaId"})
# The reasons by which a dialect refuses a message as not of its form.
_NOT_OF_ITS_FORM = frozenset(
    {
        "malformed_avro", "malformed_envelope", "no_data", "no_message", "no_operation", "no_source",
        "no_table", "not_an_object", "not_json", "not_utf8", "unknown_schema", "unknown_type",
        "unparseable_data", "unparseable_json", "wrong_magic",
    }
)  # fmt: skip
_ENVELOPE = frozenset({"before", "after", "source", "op", "ts_ms", "ts_us", "ts_ns", "transaction"})
_OF_A_CHANGE = frozenset({"before", "after", "op", "source"})
_QLIK_OBJECTS = ("message", "headers", "data", "beforeData", "lineage", "tableStructure")
_CES = "com.microsoft.sql.ces."
# An Avro record that begins with the text 1.0: `specversion` is the first field of the documented schema.
_CES_IN_AVRO = b"\x061.0"
_CES_DATA = (
    "the data of a change event streaming event without its envelope, so operation and position are "
    "missing: write whole CloudEvents to the topic (structured mode, not binary mode with attributes "
    "in headers)"
)
_QLIK_MAGIC = "atMSG"
_QLIK_TYPES = frozenset({"DT", "MD", "MT"})
_BESIDE_QLIK_OBJECTS = frozenset({"schema", "table", "beforeData"})
_FLATTENED = (
    "a row without its envelope, so operation, position and old values are missing. Switch off what "
    "removed it: the transform ExtractNewRecordState, or after.state.only of Confluent's connectors. "
    "Events of an outbox (EventRouter) are not changes: remove their topics from the feed"
)
# Connect's transform Flatten joins the names of nested members by a configurable delimiter. For each dialect:
# the pairs of names that every flattened message has, and the objects of which it has at least one.
_FLATTEN_SIGNS = {
    "debezium": ({("source", "schema"), ("source", "table")}, {"before", "after"}),
    "ces": ({("eventsource", "schema"), ("eventsource", "tbl")}, {"eventrow", "eventdata"}),
    "qlik_messages": ({("headers", "operation"), ("headers", "changeSequence")}, {"data", "beforeData"}),
}
# Parts of a joined name that are examined: Qlik's and CES's objects are nested in one more.
_MOST_PARTS = 3
_SPREAD = (
    "whose members the transform Flatten has moved out of their objects (`before.id`, "
    "`headers_operation`): remove the transform (org.apache.kafka.connect.transforms.Flatten$Value)"
)
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_MARKED = (
    "the message begins with a byte order mark (EF BB BF), which is not part of JSON (RFC 8259). No "
    "dialect's source writes one: switch it off in the tool that copies the messages"
)
# Copies of a tombstone: some tools write an empty value, others JSON's null.
_NOTHING = {b"", b"null"}
_EMPTY = (
    "the message is empty or JSON's null. Some tools that copy messages turn a tombstone, which has no "
    "value at all, into this. Make the tool keep null values as they are, or drop tombstones"
)
_OBJECTS_FOLLOW = re.compile(rb"\s*\[\s*\{")
_ARRAY = (
    "the message is a JSON array, as Event Grid and CloudEvents' batch mode put several events into "
    "one: make the tool that writes or copies the messages write each event as its own message"
)
_RENAMED = "whose members have names in another case, as ksqlDB writes them: read the topic that it came from"
_WRAPPED = (
    "in `payload`, as Connect's JsonConverter wraps what it copies: make it copy bytes "
    "(ByteArrayConverter), or set value.converter.schemas.enable=false"
)
# Debezium's own converter wraps its events.
_READ_WRAPPED = frozenset({"debezium"})
_MIXED_CASE = {"beforedata": "beforeData", "tablestructure": "tableStructure"}


def named(
    raw: pa.RecordBatch,
    outcomes: Mapping[int, Outcome],
    dialect: str,
    records: Mapping[int, bytes | None] | None = None,
) -> dict[int, Outcome]:
    """Returns the outcomes of rows of a batch, with more precise reasons for recognized messages.

    `records`: the readable records of messages in Avro as JSON, by row.
    """
    named_outcomes = dict(outcomes)
    for at, outcome in outcomes.items():
        if outcome.disposition == change.QUARANTINED and outcome.reason in _NOT_OF_ITS_FORM:
            value, headers = (raw.column(name)[at].as_py() for name in ("value", "headers"))
            record = (records or {}).get(at)
            problem = _problem(value if record is None else record, headers or (), dialect)
            named_outcomes[at] = outcome if problem is None else problem.outcome
    return named_outcomes


def _problem(value: bytes | None, headers: Headers, dialect: str) -> Problem | None:
    if value is None:
        return None
    frame = frames.unread(value, headers)
    if frame is not None:
        return frame.problem(dialect)
    attributes = {str(header["key"])[3:]: header["value"] for header in headers if header["key"][:3] == "ce_"}
    kind = (attributes.get("type") or b"").decode(errors="replace")
    if "specversion" in attributes and kind and not kind.lower().startswith(_CES):
        return _cloudevent(kind, attributes)
    return _of_bytes(value, dialect)


def _of_bytes(value: bytes, dialect: str) -> Problem | None:
    plain = _of_no_object(value)
    if plain is not None:
        return plain
    for sign, name in ((_CES_IN_AVRO, "ces"), (_QLIK_MAGIC.encode(), "qlik_messages")):
        if value.startswith(sign):
            return None if name == dialect else _of_dialect(name)
    if dialect == "ces" and avro.names_schema(value):
        what = f"the message begins with a zero byte and the schema id {avro.schema_id(value)}"
        return Frame("schema_id_frame", what, "").problem(dialect)
    try:
        # The parser skips values that it does not need, so it would miss bytes there that are not UTF-8.
        value.decode()
        message = json_text.members(value)
        record = payload_of(message)
        is_wrapped = record is not message and dialect not in _READ_WRAPPED
        return _of_members(record, dialect, is_wrapped=is_wrapped)
    except (NotJson, *UNREADABLE):
        return None


def _of_no_object(value: bytes) -> Problem | None:
    if value.strip() in _NOTHING:
        return Problem("empty_message", _EMPTY)
    if value.startswith(_BYTE_ORDER_MARK):
        return Problem("byte_order_mark", _MARKED)
    return Problem("json_array", _ARRAY) if _is_array(value) else None


def _is_array(value: bytes) -> bool:
    """Returns whether the value is an array of objects."""
    if not _OBJECTS_FOLLOW.match(value):
        return False
    try:
        return bool(json_text.members(b'{"array":%b}' % value))
    except (NotJson, *UNREADABLE):
        return False


def payload_of(message: Members) -> Members:
    """Returns the record's members: those of `payload` if a converter has wrapped the record."""
    inner = message.get("payload")
    is_wrapped = message.keys() <= _WRAPPING and inner is not None and json_text.is_object(inner)
    return json_text.members(inner) if is_wrapped and inner is not None else message


def _of_members(members: Members, dialect: str, *, is_wrapped: bool) -> Problem | None:
    # No members, or only a converter's wrapping.
    if members.keys() <= _WRAPPING:
        return enclosed.event(members)
    flattened = _flattened_of(members)
    other = enclosed.other_tool(members)
    if flattened is not None:
        other = Problem("flattened_envelope", f"{EVENTS[flattened]} {_SPREAD}")
    if other is not None:
        return other
    name = _dialect_of(members)
    if name is None:
        return _of_no_dialect(members)
    if name != dialect:
        return _of_dialect(name)
    wrapped = Problem("wrapped_message", f"{EVENTS[name]} {_WRAPPED}") if is_wrapped else None
    return enclosed.texts(members) if name == "debezium" else wrapped


def _of_no_dialect(members: Members) -> Problem:
    attributes = in_lower_case(members)
    if _is_cloudevent(members):
        return _cloudevent(json_text.text(attributes["type"]), attributes)
    if "eventsource" in attributes and attributes.keys() & {"eventrow", "eventdata"}:
        return Problem("ces_data_alone", _CES_DATA)
    inside = enclosed.event(members)
    if inside is not None:
        return inside
    renamed = _dialect_of({_MIXED_CASE.get(name, name): token for name, token in attributes.items()})
    if renamed is not None:
        what = f"{EVENTS[renamed]} {_RENAMED}"
        return Problem("renamed_envelope", f"{what}. Its members: {shown(members)}")
    return Problem("flattened_event", f"{_FLATTENED}. Its members: {shown(members)}")


def _flattened_of(members: Members) -> str | None:
    """Returns the dialect of a message that Flatten was applied to, as a whole or inside `message`."""
    inner = members.get("message")
    if inner is not None and json_text.is_object(inner):
        members = {**members, **json_text.members(inner)}
    parts = [re.split("[^A-Za-z0-9]", name)[:_MOST_PARTS] for name in members]
    pairs = {pair for of_one in parts for pair in pairwise(of_one)}
    objects = {name for of_one in parts for name in of_one}
    for name, (signs, others) in _FLATTEN_SIGNS.items():
        if signs <= pairs and others & objects:
            return name
    return None


def _dialect_of(members: Members) -> str | None:
    if _is_debezium(members):
        return "debezium"
    if _is_ces(members):
        return "ces"
    return "qlik_messages" if not _is_cloudevent(members) and _is_qlik(members) else None


def _is_debezium(members: Members) -> bool:
    """Returns whether it is a change event's envelope or the remains of one."""
    if members.keys() <= _ENVELOPE:
        return bool(members.keys() & _OF_A_CHANGE)
    objects = _objects(members, ("before", "after", "source"))
    return objects > 1 or (objects == 1 and "op" in members)


def _is_ces(members: Members) -> bool:
    attributes = in_lower_case(members)
    kind = json_text.text(attributes.get("type"))
    if kind is None:
        return {"specversion", "logicalid"} <= attributes.keys()
    return kind.lower().startswith(_CES) and bool(attributes.keys() & {"specversion", "logicalid", "data"})


def _is_qlik(members: Members) -> bool:
    """Returns whether it is a message of Qlik, with or without its envelope, or the remains of one."""
    if json_text.text(members.get("magic")) == _QLIK_MAGIC or {"magic", "message"} <= members.keys():
        return True
    objects = _objects(members, _QLIK_OBJECTS)
    is_said = json_text.text(members.get("type")) in _QLIK_TYPES
    return objects > 1 or (objects == 1 and (is_said or bool(members.keys() & _BESIDE_QLIK_OBJECTS)))


def _objects(members: Members, names: Iterable[str]) -> int:
    """Returns how many of these members are objects; no column of a flattened row is one."""
    return sum(name in members and json_text.is_object(members[name]) for name in names)


def _of_dialect(name: str) -> Problem:
    return Problem(_REASONS[name], f"{EVENTS[name]}: give its topic to a feed with `dialect: {name}`")


def _is_cloudevent(members: Members) -> bool:
    return {"specversion", "type", "source"} <= in_lower_case(members).keys()


def _cloudevent(kind: str | None, attributes: Iterable[str]) -> Problem:
    if any(name.startswith("iodebezium") for name in attributes) or "debezium" in str(kind).lower():
        remedy = "set value.converter to a converter other than io.debezium.converters.CloudEventsConverter"
        return Problem("cloudevent", f"a CloudEvent around an event of Debezium (type {kind}): {remedy}")
    return Problem(
        "cloudevent",
        f"a CloudEvent of the type {kind}, which is not a change event streaming change: keep such "
        "events off the topic",
    )
