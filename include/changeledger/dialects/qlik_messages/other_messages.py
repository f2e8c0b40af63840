"""Decodes metadata, messages of tables that the feed does not list, and data that waits for its metadata."""

from __future__ import annotations

import pyarrow as pa

from changeledger.config.feed import Feed
from changeledger.dialects.messages import foreign, frames, message_rows
from changeledger.dialects.messages.message_rows import Outcome
from changeledger.dialects.messages.problems import Problem
from changeledger.dialects.qlik_messages import avro, message, schemas
from changeledger.dialects.qlik_messages.addresses import address
from changeledger.dialects.qlik_messages.discovery import Discovery
from changeledger.dialects.qlik_messages.schemas import Label
from changeledger.dialects.qlik_messages.versions import Place
from changeledger.model import change


def decode_other(raw: pa.RecordBatch, _feed: Feed, plan: Discovery) -> pa.RecordBatch:
    """Returns a row (`message_rows.UNCHANGED`) for each message that `discovery.routes` gives no table."""
    places = zip(*(raw.column(name).to_pylist() for name in ("topic", "partition", "offset")), strict=True)
    values, broken = avro.in_json(raw, plan.avro_schemas)
    outcomes = [
        _outcome(value, place, broken.get(at), plan)
        for at, (value, place) in enumerate(zip(values, places, strict=True))
    ]
    named = foreign.named(raw, dict(enumerate(outcomes)), avro.DIALECT, dict(enumerate(values)))
    return message_rows.unchanged(raw, list(named.values()))


def _outcome(value: bytes | None, place: Place, broken: Problem | None, plan: Discovery) -> Outcome:
    if value is None and broken is None:
        return message.TOMBSTONE
    metadata = plan.metadata.get(place)
    reason, detail = metadata or plan.reasons.get(Label(place[0], *address(value)[1:])) or (None, None)
    if reason == schemas.METADATA:
        return Outcome(change.CONTROL, reason)
    problem = broken or _problem(value or b"")
    # Metadata that says how to read the message may still come. One of another table need not be read.
    is_unread = broken is not None and broken.outcome.reason == frames.UNKNOWN_SCHEMA and value is not None
    if problem is not None and not (is_unread and reason in {schemas.UNKNOWN, schemas.NOT_IN_FEED}):
        outcome = problem.outcome
        return outcome if metadata is None or detail is None else outcome._replace(detail=detail)
    if reason == schemas.NOT_IN_FEED:
        return message_rows.not_in_feed(detail or place[0])
    if reason == schemas.UNKNOWN:
        return Outcome(change.PENDING, reason, detail)
    return Outcome(change.QUARANTINED, reason, detail)


def _problem(value: bytes) -> Problem | None:
    try:
        message.read(value)
    except Problem as problem:
        return problem
    return None
