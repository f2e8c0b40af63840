"""Decodes the raw messages of one table into one row each: a canonical change, or the message's outcome."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.dialects.debezium import blocks, events, key_only, large_values, old_days, single, typed
from changeledger.dialects.debezium.avro import DIALECT
from changeledger.dialects.debezium.old_days import CALENDAR_SUSPECT
from changeledger.dialects.debezium.plan import TablePlan
from changeledger.dialects.debezium.positions import Positions, positions
from changeledger.dialects.debezium.single import OPERATIONS, Event
from changeledger.dialects.messages import foreign, message_rows
from changeledger.dialects.messages.message_rows import Outcome
from changeledger.kernels import avro, changes, images, lsn
from changeledger.kernels.arrow import flags_of
from changeledger.kernels.avro import BrokenRecord, NotUtf8, Schema
from changeledger.kernels.changes import Changes
from changeledger.kernels.rows import as_batch
from changeledger.model import change

# Flag of a change with a placeholder for a value that the source's log always has.
PLACEHOLDER_MISPLACED = "placeholder_misplaced"
_UPDATE, _DELETE = "u", "d"


def decode(raw: pa.RecordBatch, plan: TablePlan) -> pa.RecordBatch:
    """Decodes a table's messages (`arrow.MESSAGE`): a row each, in order (`message_rows.decoded_schema`)."""
    raw = message_rows.as_messages(raw)
    values, faults = _messages(raw, plan)
    parts: list[pa.RecordBatch] = []
    places: list[npt.NDArray[np.int64]] = []
    others: dict[int, Outcome] = {}
    for how, some in blocks.plans(values, plan):
        read, outcomes = _read(raw, values, some, how, faults)
        others |= outcomes
        rows = read.column("at")
        place = raw.select(["topic", "partition", "offset", "timestamp"])
        read_changes = _changes(read, place if len(rows) == raw.num_rows else place.take(rows), how)
        parts.append(
            changes.ledger_rows(
                read_changes, plan.contract, plan.feed.feed, plan.feed.dialect, plan.window_id
            )
        )
        places.append(rows.to_numpy())
    canonical, of_changes = _in_order(parts, places)
    records = {at: value for at in others if plan.avro_schema is not None and (value := values[at])}
    others = foreign.named(raw, others, DIALECT, records)
    return message_rows.decoded(raw, canonical, of_changes, others, plan.contract)


def _read(
    raw: pa.RecordBatch,
    values: Sequence[bytes | None],
    rows: Sequence[int],
    how: TablePlan,
    faults: Mapping[int, Outcome],
) -> tuple[pa.RecordBatch, dict[int, Outcome]]:
    """Reads these messages by the plan `how`. Returns their events, and the outcomes of the others."""
    usual, unusual = typed.read(values, rows, how)
    singles = [(at, faults.get(at) or _single(raw, at, values[at], how)) for at in unusual]
    alone = _columns([(at, event) for at, event in singles if isinstance(event, Event)], how)
    outcomes = {at: outcome for at, outcome in singles if isinstance(outcome, Outcome)}
    return events.together([usual, alone]), outcomes


def _in_order(
    parts: Sequence[pa.RecordBatch], places: Sequence[npt.NDArray[np.int64]]
) -> tuple[pa.RecordBatch, npt.NDArray[np.int64]]:
    """Concatenates the changes of several parts and their message numbers, in the order of the messages."""
    if len(parts) == 1:
        return parts[0], places[0]
    rows = np.concatenate(places)
    order = np.argsort(rows, kind="stable")
    return as_batch(pa.Table.from_batches(parts)).take(pa.array(order)), rows[order]


def _single(raw: pa.RecordBatch, at: int, value: bytes | None, plan: TablePlan) -> Event | Outcome:
    if value is None:
        return Outcome(change.TOMBSTONE)
    topic, key = (raw.column(name)[at].as_py() for name in ("topic", "key"))
    return single.read(value, plan, topic, key)


def _messages(raw: pa.RecordBatch, plan: TablePlan) -> tuple[list[bytes | None], dict[int, Outcome]]:
    """Returns the messages as JSON in UTF-8, None where one has no such form, and the faults by number."""
    values = raw.column("value").to_pylist()
    faults: dict[int, Outcome] = {}
    if plan.avro_schema is not None:
        schema = avro.schema(plan.avro_schema)
        for at, value in enumerate(values):
            if value is not None:
                values[at], fault = from_avro(value, schema)
                if fault is not None:
                    faults[at] = fault
        return values, faults
    try:
        # msgspec skips members that it does not decode, so it would miss bytes there that are not UTF-8.
        pc.cast(raw.column("value"), pa.string())
    except pa.ArrowInvalid:
        for at, value in enumerate(values):
            if value is not None and value.decode(errors="ignore").encode() != value:
                values[at], faults[at] = None, single.NOT_UTF8
    return values, faults


def from_avro(value: bytes, schema: Schema) -> tuple[bytes | None, Outcome | None]:
    """Returns a framed record as JSON, or the reason why it cannot be read."""
    try:
        if not avro.is_framed(value):
            raise BrokenRecord("no frame")
        return schema.json(value[avro.FRAME_BYTES :]), None
    except BrokenRecord:
        return None, Outcome(change.QUARANTINED, "malformed_avro", avro.beginning(value))
    except NotUtf8 as error:
        return None, Outcome(change.QUARANTINED, "not_utf8", f"a text in `{error}` is not UTF-8")


def _columns(numbered_events: Sequence[tuple[int, Event]], plan: TablePlan) -> pa.RecordBatch:
    """Converts events that were read one by one to columns."""
    schema = events.schema(plan.writer_schema)
    width = len(plan.writer_schema.columns)
    columns: list[Sequence[Any]] = [[at for at, _ in numbered_events]]
    columns += [[event[number] for _, event in numbered_events] for number in range(len(events.PLACE) - 1)]
    for side in ("before", "after"):
        given = [getattr(event, side) for _, event in numbered_events]
        columns.append([image is not None for image in given])
        columns.append([image and image.states for image in given])
        columns += [[image and image.values[at] for image in given] for at in range(width)]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _changes(read: pa.RecordBatch, raw: pa.RecordBatch, plan: TablePlan) -> Changes:
    op, connector, writer = read.column("op"), read.column("connector"), plan.writer_schema
    before, after = (events.image(read, side, len(writer.columns)) for side in events.SIDES)
    is_update, is_delete = (flags_of(pc.equal(op, letter)) for letter in (_UPDATE, _DELETE))
    is_mssql = flags_of(pc.fill_null(pc.equal(connector, "sqlserver"), fill_value=True))
    misplaced = large_values.misplaced(before, after, is_update, writer) & is_mssql
    before = key_only.known(before, after, is_update, connector, plan)
    place = positions(read, raw)
    before, after = before.only(is_update | is_delete), after.only(~is_delete)
    sent = large_values.without_unsent(before, after, is_update & is_mssql, is_delete & is_mssql, plan)
    before, after = (images.without_nulls(image, plan.never_null) for image in sent)
    # Only an update changes columns.
    changed = images.changed(before.only(is_update), after, writer.names)
    key, moved = images.keys(before, after, is_delete, writer)
    moved &= is_update & before.present
    before, after, key = images.all_fitted(before, after, key, writer, plan.contract)
    return Changes(
        operation=pa.array(list(OPERATIONS.values())).take(pc.index_in(op, pa.array(list(OPERATIONS)))),
        before=before,
        after=after,
        key=key,
        moved=moved,
        changed=changed,
        commit_lsn=place.commit_lsn,
        change_lsn=place.change_lsn,
        event_serial_no=place.ordinal,
        sort_key=place.sort_key,
        committed_at=place.committed_at,
        transaction_id=_transactions(read, place),
        flags={
            change.POSITION_UNKNOWN: ~place.commit_lsn.known,
            change.BEFORE_UNKNOWN: is_update & ~before.present,
            change.KEY_CHANGED: moved,
            change.ORDER_AMBIGUOUS: is_mssql & place.is_first,
            change.CLOCK_SUSPECT: place.is_suspect,
            PLACEHOLDER_MISPLACED: misplaced,
            CALENDAR_SUSPECT: is_mssql & old_days.in_images(before, after, plan.contract),
        },
        source_position=message_rows.record(raw),
    )


def _transactions(read: pa.RecordBatch, place: Positions) -> pa.StringArray:
    """Returns the source's own transaction ids; for SQL Server the commit LSN, and NULL in snapshot rows."""
    commit = place.commit_lsn._replace(known=place.commit_lsn.known & ~place.is_snapshot)
    is_other = pc.fill_null(pc.not_equal(read.column("connector"), "sqlserver"), fill_value=False)
    source_id = pc.if_else(is_other, read.column("transaction"), pa.scalar(None, pa.string()))
    return pc.coalesce(source_id, lsn.to_text(commit))
