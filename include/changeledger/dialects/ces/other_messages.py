"""Decodes messages that belong to no table of the feed: unreadable ones, tombstones, those of other tables.

A change of a table that the feed does not list is control; what cannot be read is quarantined. All segments
of an event share its outcome.
"""

from __future__ import annotations

import pyarrow as pa

from changeledger.config.feed import Feed
from changeledger.dialects.ces import split
from changeledger.dialects.ces.decode import DIALECT
from changeledger.dialects.ces.discovery import Discovery, Routed, route
from changeledger.dialects.messages import foreign, message_rows
from changeledger.dialects.messages.message_rows import Outcome


def decode_other(raw: pa.RecordBatch, _feed: Feed, plan: Discovery) -> pa.RecordBatch:
    """Returns a row (`message_rows.UNCHANGED`) for each message that `discovery.routes` gives no table."""
    outcomes = [_outcome(value, plan) for value in raw.column("value").to_pylist()]
    firsts = split.first_messages(raw)
    named = foreign.named(firsts, dict(enumerate(outcomes)), DIALECT)
    return split.with_segments(message_rows.unchanged(firsts, list(named.values())), raw, named.__getitem__)


def _outcome(value: bytes | None, plan: Discovery) -> Outcome:
    routed = route(value)
    if isinstance(routed, Outcome):
        return routed
    assert isinstance(routed, Routed), "split events are joined or refused before"
    missing = plan.missing.get(routed.way)
    if missing is not None:
        return missing
    return message_rows.not_in_feed(routed.way.table)
