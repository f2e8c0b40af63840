"""Joins events that were split over several messages, by `logicalid`.

Each segment is a message of its own, on any partition and in any order. Repeated deliveries that agree are
dropped; those that disagree make the whole event doubtful. The segments of an incomplete event wait: they are
passed in again with those of the next window.

A joined event is a message as if it had not been split, with its segments beside it (`JOINED`).
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from changeledger.dialects.ces import avro, envelope
from changeledger.dialects.ces.envelope import Envelope, Tombstone
from changeledger.dialects.kernel import Joined
from changeledger.dialects.messages import message_rows
from changeledger.dialects.messages.message_rows import Outcome
from changeledger.dialects.messages.problems import Problem
from changeledger.kernels import binary_text, json_text
from changeledger.kernels.arrow import MESSAGE, Indices
from changeledger.kernels.json_text import NotJson
from changeledger.kernels.rows import as_batch
from changeledger.model import change

_PARTS = "parts"
# `parts`: the messages of the segments, in their order.
JOINED = MESSAGE.append(pa.field(_PARTS, pa.list_(pa.struct(list(MESSAGE)))))
# `event`: equal for the segments of one event.
KEYED = MESSAGE.append(pa.field("event", pa.string()))
_ATTRIBUTES = ("type", "source", "logicalid", "time", "operation", "data")


class Segment(NamedTuple):
    """A part of an event. The first four fields order the parts: of one index the first delivery counts."""

    segment: int
    topic: str
    partition: int
    offset: int
    said: Envelope
    message: Mapping[str, Any]


def keyed(raw: pa.RecordBatch) -> pa.RecordBatch:
    """Returns the segments among the messages, each with the identity of its event (`KEYED`)."""
    raw = message_rows.as_messages(raw)
    events = pa.array([_event_of_segment(value) for value in raw.column("value").to_pylist()], pa.string())
    return pa.RecordBatch.from_arrays([*raw.columns, events], schema=KEYED).filter(events.is_valid())


def _event_of_segment(value: bytes | None) -> str | None:
    """Returns the identity of a segment's event; None for any other message."""
    if value is not None and envelope.is_no_segment(value):
        return None
    try:
        said = envelope.read(value)
    except (Problem, Tombstone):
        return None
    return None if said.is_whole else repr(_event_of(said))


def _event_of(said: Envelope) -> tuple[str | None, ...]:
    """Returns the values that all segments of an event share."""
    return said.source, said.logicalid, None if said.operation is None else said.operation.upper()


def joined(raw: pa.RecordBatch) -> Joined:
    """Joins the segments of a window and those that waited. It needs all segments of an event at once."""
    groups: dict[tuple[str | None, ...], list[Segment]] = {}
    for message in raw.to_pylist():
        said = envelope.read(message["value"])
        place = (message["topic"], message["partition"], message["offset"])
        delivered = Segment(said.segment or 0, *place, said, message)
        groups.setdefault(_event_of(said), []).append(delivered)
    events: list[dict[str, Any]] = []
    refused: list[tuple[Segment, Outcome]] = []
    for segments in groups.values():
        event, others = _group(sorted(segments, key=lambda segment: segment[:4]))
        events += [] if event is None else [event]
        refused += others
    outcomes = [outcome for _, outcome in refused]
    batch = pa.RecordBatch.from_pylist([segment.message for segment, _ in refused], MESSAGE)
    return Joined(pa.RecordBatch.from_pylist(events, JOINED), message_rows.unchanged(batch, outcomes))


def _group(segments: Sequence[Segment]) -> tuple[dict[str, Any] | None, list[tuple[Segment, Outcome]]]:
    """Returns the event if it is complete, and the segments that are not part of it with their outcomes."""
    deliveries = [list(of_index) for _, of_index in groupby(segments, key=lambda segment: segment.segment)]
    kept = [first for first, *_ in deliveries]
    data, last = _data(kept), None
    in_avro = any(avro.is_avro(segment.message["value"]) for segment in kept)
    begins = kept[0].segment == 0 or (kept[0].segment == 1 and _begins(data, in_avro))
    ends = [segment for segment in kept if segment.said.is_final]
    if ends:
        last = ends[0].segment
    elif kept[0].said.total is not None:
        last = kept[0].said.total + (kept[0].segment - 1 if begins else 0)
    shown = "the last one is missing" if last is None else f"the last one is {last}"
    numbers = ", ".join(str(segment.segment) for segment in kept)
    detail = f"segments {numbers} of {kept[0].said.logicalid}, {shown}"
    # An index has two texts, there are two totals, or a segment, perhaps another end, is beyond the end.
    differ = any(
        (first.said.data, first.said.is_final) != (segment.said.data, segment.said.is_final)
        for first, *repeated in deliveries
        for segment in repeated
    )
    totals = {segment.said.total for segment in segments}
    if differ or len(totals) > 1 or (last is not None and kept[-1].segment > last):
        bad = Outcome(change.QUARANTINED, "split_contradictory", detail)
        return None, [(segment, bad) for segment in segments]
    again = Outcome(change.DUPLICATE, "segment_again", detail)
    others = [(segment, again) for _, *repeated in deliveries for segment in repeated]
    if begins and last is not None and len(kept) == last - kept[0].segment + 1:
        return _event(kept, data), others
    waits = Outcome(change.PENDING, "split_incomplete", detail)
    return None, [*((segment, waits) for segment in kept), *others]


def _data(kept: Sequence[Segment]) -> str | bytes:
    """Joins the event's `data`.

    Bytes may be written as base64 of each segment, with padding, or of the whole. One piece of JSON may look
    like base64, but not all pieces of an event do.
    """
    pieces = [segment.said.data for segment in kept]
    texts = [piece for piece in pieces if isinstance(piece, str)]
    if len(texts) < len(pieces):
        return b"".join(map(_bytes, pieces))
    raw = [binary_text.from_base64(text) if len(text) % 4 == 0 else None for text in texts]
    decoded = [segment_bytes for segment_bytes in raw if segment_bytes is not None]
    if len(decoded) == len(texts):
        return avro.text_or_bytes(b"".join(decoded))
    whole = "".join(texts)
    in_base64 = binary_text.from_base64(whole)
    return whole if in_base64 is None else avro.text_or_bytes(in_base64)


def _begins(data: str | bytes, in_avro: bool) -> bool:
    """Returns whether segments that begin with 1 are counted from 1.

    If so, their data is an event once all have arrived. If segment 0 is missing, the rest is not an event.
    """
    if in_avro and avro.is_event(_bytes(data)):
        return True
    try:
        return any(name.lower() == "eventsource" for name in json_text.members(_bytes(data)))
    except NotJson:
        return False


def _bytes(data: str | bytes) -> bytes:
    return data.encode() if isinstance(data, str) else data


def _event(kept: Sequence[Segment], data: str | bytes) -> dict[str, Any]:
    first, text = kept[0], avro.event_text(_bytes(data))
    whole = text if isinstance(text, str) else b64encode(text).decode()
    said = first.said._replace(data=whole)._asdict()
    value = msgspec.json.encode({name: said[name] for name in _ATTRIBUTES if said[name] is not None})
    return {**first.message, "value": value, _PARTS: [segment.message for segment in kept]}


def first_messages(raw: pa.RecordBatch) -> pa.RecordBatch:
    """Returns the messages; for joined events those of their first segments, as received."""
    if raw.schema.get_field_index(_PARTS) < 0:
        return raw
    parts = raw.column(_PARTS)
    firsts = parts.flatten().take(pa.array(_starts(parts)))
    return pa.RecordBatch.from_arrays(firsts.flatten(), schema=MESSAGE)


def of_whole_event(firsts: pa.RecordBatch, row: int) -> Outcome:
    """Returns the outcome of a change's other segments.

    Its `detail` is the position of the first segment, by which they are found if the change is to be erased.
    """
    topic, partition, offset = (firsts.column(name)[row] for name in ("topic", "partition", "offset"))
    return Outcome(change.PAIRED, detail=f"{topic}[{partition}]@{offset}")


def _starts(parts: pa.ListArray) -> Indices:
    lengths = parts.value_lengths().to_numpy(zero_copy_only=False)
    starts: Indices = np.concatenate(([0], np.cumsum(lengths)[:-1])).astype(np.int64)[: len(lengths)]
    return starts


def with_segments(
    decoded: pa.RecordBatch, raw: pa.RecordBatch, outcome: Callable[[int], Outcome]
) -> pa.RecordBatch:
    """Inserts after each event's row the rows of its other segments.

    `outcome` gives the outcome of an event's other segments. Their `paired_source_position` is that of its
    first segment.
    """
    if raw.schema.get_field_index(_PARTS) < 0 or not raw.num_rows:
        return decoded
    parts = raw.column(_PARTS)
    lengths = parts.value_lengths().to_numpy(zero_copy_only=False)
    owner = np.repeat(np.arange(len(lengths)), lengths)
    is_first = np.zeros(len(owner), np.bool_)
    is_first[_starts(parts)] = True
    rest = pa.RecordBatch.from_arrays(parts.flatten().flatten(), schema=MESSAGE).filter(pa.array(~is_first))
    owners = owner[~is_first]
    schema, size = decoded.schema, rest.num_rows
    columns = dict.fromkeys(schema.names)
    columns["source_position"] = message_rows.record(rest)
    names = [name for name, _ in message_rows.OUTCOME]
    outcome_columns = message_rows.outcomes(rest, range(size), [outcome(row) for row in owners.tolist()])
    columns |= dict(zip(names, outcome_columns, strict=True))
    if schema.get_field_index("paired_source_position") >= 0:
        columns["paired_source_position"] = decoded.column("source_position").take(pa.array(owners))
    arrays = [pa.nulls(size, f.type) if columns[f.name] is None else columns[f.name] for f in schema]
    both = pa.Table.from_batches([decoded, pa.RecordBatch.from_arrays(arrays, schema=schema)])
    order = np.argsort(np.concatenate((np.arange(len(lengths)), owners)), kind="stable")
    return as_batch(both.take(pa.array(order)))
