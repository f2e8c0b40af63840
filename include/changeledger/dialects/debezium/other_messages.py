"""Classifies messages that belong to no table of the feed, such as heartbeats and schema changes.

A change of a table that the feed does not list is control. What is neither that, nor a tombstone or another
control message, is quarantined.
"""

from __future__ import annotations

import pyarrow as pa

from changeledger.config.feed import Feed
from changeledger.dialects.debezium.avro import DIALECT, schema_fault
from changeledger.dialects.debezium.control import control_kind
from changeledger.dialects.debezium.decode import from_avro
from changeledger.dialects.debezium.discovery import Discovery
from changeledger.dialects.debezium.names import mismatch, sharing
from changeledger.dialects.debezium.single import members_of, wraps_nothing
from changeledger.dialects.messages import foreign, message_rows
from changeledger.dialects.messages.foreign import payload_of
from changeledger.dialects.messages.message_rows import Outcome
from changeledger.dialects.messages.problems import Problem
from changeledger.dialects.messages.samples import Sample
from changeledger.kernels import avro, json_text
from changeledger.kernels.json_text import Members
from changeledger.model import change
from changeledger.model.column_names import shown
from changeledger.model.source_names import TABLES_ALIKE, not_meant


def decode_other(raw: pa.RecordBatch, feed: Feed, discovery: Discovery) -> pa.RecordBatch:
    """Returns one row per message (`message_rows.UNCHANGED`)."""
    raw = message_rows.as_messages(raw)
    columns = (raw.column(name).to_pylist() for name in Sample._fields)
    outcomes: list[Outcome] = []
    records: dict[int, bytes] = {}
    for at, message in enumerate(map(Sample, *columns)):
        if not avro.is_framed(message.value):
            outcomes.append(_of_json(message, message.value, feed, discovery))
            continue
        outcome, record = _of_avro(message, message.value or b"", feed, discovery)
        outcomes.append(outcome)
        if record is not None:
            records[at] = record
    named = foreign.named(raw, dict(enumerate(outcomes)), DIALECT, records)
    return message_rows.unchanged(raw, list(named.values()))


def _of_avro(message: Sample, value: bytes, feed: Feed, discovery: Discovery) -> tuple[Outcome, bytes | None]:
    """Returns the outcome of a framed message, and its record in JSON if it can be read."""
    schema_id = avro.schema_id(value)
    fault = discovery.faults.get((message.topic, schema_id)) or schema_fault(schema_id, discovery.schemas)
    if fault is not None:
        return fault, None
    schema = avro.schema(discovery.schemas[schema_id])
    record, fault = from_avro(value, schema)
    return fault or _of_json(message, record, feed, discovery, schema.root.name), record


def _of_json(
    message: Sample, record: bytes | None, feed: Feed, discovery: Discovery, schema: str | None = None
) -> Outcome:
    """Returns a message's outcome. `record`: its value in JSON. `schema`: the name of its Avro schema."""
    if record is None:
        return Outcome(change.TOMBSTONE, "tombstone")
    try:
        members = members_of(record)
        if wraps_nothing(members):
            return Outcome(change.TOMBSTONE, "tombstone")
        payload = payload_of(members)
        if "op" not in payload:
            kind = control_kind(members, message.topic, message.key, schema)
            if kind is not None:
                return Outcome(change.CONTROL, kind)
        return _of_event(payload, message.topic, feed, discovery)
    except Problem as problem:
        return problem.outcome


def _of_event(payload: Members, topic: str, feed: Feed, discovery: Discovery) -> Outcome:
    """Returns the outcome of a change event that was routed to no table. Raises Problem."""
    source = payload.get("source")
    if source is None or not json_text.is_object(source):
        raise Problem("no_source", "the message has no `source`")
    if json_text.text(payload.get("op")) is None:
        raise Problem("no_operation", "the message has no `op`")
    named = json_text.members(source)
    schema, table = (json_text.text(named.get(name)) for name in ("schema", "table"))
    full = None if schema is None or table is None else f"{schema}.{table}"
    if full is not None and (topic, full) in discovery.faults:
        return discovery.faults[topic, full]
    _check_table(full or ".".join(topic.split(".")[-2:]), feed, discovery)
    listed = {config.table.lower() for config in feed.tables}
    if full is None or not listed or full.lower() in listed:
        # Discovery found no table for it in the messages of its topic.
        what = "neither `source` nor the topic names a table of the feed"
        raise Problem("topic_names_no_table", what if full is None else f"{what}: {shown([full])}")
    # The feed lists the table by its name in topics, not its own name (risingwavelabs/risingwave#26985).
    alike = sharing(full, tuple(config.table for config in feed.tables))
    if alike is not None:
        raise mismatch(full, alike)
    return message_rows.not_in_feed(full)


def _check_table(name: str, feed: Feed, discovery: Discovery) -> None:
    """Raises Problem if the name differs only in case from the name of one of the feed's tables."""
    config = feed.table(name)
    if config is not None and discovery.names.get(config.table, name) != name:
        raise Problem(TABLES_ALIKE, not_meant(name, config.table, discovery.names[config.table]))
