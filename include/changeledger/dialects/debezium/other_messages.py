"""Messages of topics without a table of the feed: heartbeats, transaction and schema topics, and the like.

A change of a table that the feed does not list is control; anything else is quarantined.
"""

from __future__ import annotations

import pyarrow as pa

from changeledger.config.feed import Feed
from changeledger.dialects.debezium.decode import from_avro
from changeledger.dialects.debezium.discovery import Discovery
from changeledger.dialects.debezium.single import control_kind, members_of, payload_of, wraps_nothing
from changeledger.dialects.messages import message_rows
from changeledger.dialects.messages.message_rows import Outcome
from changeledger.dialects.messages.problems import Problem
from changeledger.kernels import avro, json_text
from changeledger.kernels.json_text import Members
from changeledger.model import change


def decode_other(raw: pa.RecordBatch, feed: Feed, discovery: Discovery) -> pa.RecordBatch:
    """One row per message (`messages.UNCHANGED`)."""
    raw = message_rows.as_messages(raw)
    topics, values = (raw.column(name).to_pylist() for name in ("topic", "value"))
    found = [_outcome(topic, value, feed, discovery) for topic, value in zip(topics, values, strict=True)]
    return message_rows.unchanged(raw, found)


def _outcome(topic: str, value: bytes | None, feed: Feed, discovery: Discovery) -> Outcome:
    if value is None:
        return Outcome(change.TOMBSTONE, "tombstone")
    if not avro.is_framed(value):
        return _of_json(topic, value, feed, value.decode(errors="replace")[:500])
    place = topic, avro.schema_id(value)
    if place in discovery.faults:
        return discovery.faults[place]
    record, fault = from_avro(value, avro.schema(discovery.schemas[place[1]]))
    if record is None:
        return fault or Outcome(change.QUARANTINED, "malformed_avro", avro.beginning(value))
    return _of_json(topic, record, feed, avro.beginning(value))


def _of_json(topic: str, value: bytes, feed: Feed, shown: str) -> Outcome:
    try:
        message = members_of(value)
    except Problem:
        return Outcome(change.QUARANTINED, "not_an_event", shown)
    if wraps_nothing(message):
        return Outcome(change.TOMBSTONE, "tombstone")
    payload = payload_of(message)
    if topic.startswith("__debezium-heartbeat") and json_text.text(payload.get("ts_ms")) is not None:
        return Outcome(change.CONTROL, "heartbeat")
    kind = control_kind(message)
    if kind is not None:
        return Outcome(change.CONTROL, kind)
    return _of_event(payload, feed, shown) or Outcome(change.QUARANTINED, "not_an_event", shown)


def _of_event(payload: Members, feed: Feed, shown: str) -> Outcome | None:
    """What becomes of a change event whose topic has no table; None if it is none."""
    source = payload.get("source")
    if source is None or json_text.text(payload.get("op")) is None or not json_text.is_object(source):
        return None
    named = json_text.members(source)
    schema, table = (json_text.text(named.get(name)) for name in ("schema", "table"))
    full = None if schema is None or table is None else f"{schema}.{table}".lower()
    listed = {config.table.lower() for config in feed.tables}
    if full is None or not listed or full in listed:
        # Neither the first nor the last messages of its topic had a table.
        return Outcome(change.QUARANTINED, "topic_names_no_table", shown)
    return message_rows.not_in_feed(f"{schema}.{table}")
