"""Messages of topics without a table of the feed: heartbeats, transaction and schema topics, and the like.

A change of a table that the feed does not list is control; anything else is quarantined.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from changeledger.config.feed import Feed
from changeledger.dialects.debezium.avro import DIALECT, schema_fault
from changeledger.dialects.debezium.control import control_kind
from changeledger.dialects.debezium.decode import from_avro
from changeledger.dialects.debezium.discovery import Discovery
from changeledger.dialects.debezium.single import members_of, wraps_nothing
from changeledger.dialects.messages import foreign, message_rows
from changeledger.dialects.messages.foreign import payload_of
from changeledger.dialects.messages.message_rows import Outcome
from changeledger.dialects.messages.problems import Problem
from changeledger.kernels import avro, json_text
from changeledger.kernels.json_text import Members
from changeledger.model import change


def decode_other(raw: pa.RecordBatch, feed: Feed, discovery: Discovery) -> pa.RecordBatch:
    """One row per message (`messages.UNCHANGED`)."""
    raw = message_rows.as_messages(raw)
    return message_rows.unchanged(raw, [_outcome(message, feed, discovery) for message in raw.to_pylist()])


def _outcome(message: Mapping[str, Any], feed: Feed, discovery: Discovery) -> Outcome:
    value, headers = message["value"], message["headers"] or ()
    if value is None:
        return Outcome(change.TOMBSTONE, "tombstone")
    if not avro.is_framed(value):
        return foreign.named(_of_json(message, value, feed, discovery), value, headers, DIALECT)
    place = message["topic"], avro.schema_id(value)
    fault = discovery.faults.get(place) or schema_fault(place[1], discovery.schemas)
    if fault is not None:
        return foreign.named(fault, value, headers, DIALECT)
    schema = avro.schema(discovery.schemas[place[1]])
    record, fault = from_avro(value, schema)
    outcome = fault if record is None else _of_json(message, record, feed, discovery, schema.root.name)
    assert outcome is not None, "without a record there is a fault"
    return foreign.named(outcome, value if record is None else record, headers, DIALECT)


def _of_json(
    message: Mapping[str, Any], value: bytes, feed: Feed, discovery: Discovery, schema: str | None = None
) -> Outcome:
    """`value`: the record in JSON. `schema`: the name of its Avro schema."""
    try:
        members = members_of(value)
        if wraps_nothing(members):
            return Outcome(change.TOMBSTONE, "tombstone")
        kind = control_kind(members, topic=message["topic"], key=message["key"], schema=schema)
        if kind is not None:
            return Outcome(change.CONTROL, kind)
        return _of_event(payload_of(members), message["topic"], feed, discovery)
    except Problem as problem:
        return problem.outcome


def _of_event(payload: Members, topic: str, feed: Feed, discovery: Discovery) -> Outcome:
    """What becomes of a change event whose topic has no table."""
    source = payload.get("source")
    if source is None or not json_text.is_object(source):
        raise Problem("no_source", "the message has no `source`")
    if json_text.text(payload.get("op")) is None:
        raise Problem("no_operation", "the message has no `op`")
    named = json_text.members(source)
    schema, table = (json_text.text(named.get(name)) for name in ("schema", "table"))
    full = None if schema is None or table is None else f"{schema}.{table}".lower()
    if full is not None and (topic, full) in discovery.faults:
        return discovery.faults[topic, full]
    listed = {config.table.lower() for config in feed.tables}
    if full is None or not listed or full in listed:
        # Neither the first nor the last messages of its topic had a table.
        what = "neither `source` nor the topic names a table of the feed"
        raise Problem("topic_names_no_table", what if full is None else f"{what}: {full}")
    return message_rows.not_in_feed(f"{schema}.{table}")
