"""Decodes the messages of one table: each becomes a row with a canonical change or another outcome."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from changeledger.dialects.messages import foreign, message_rows, one_by_one
from changeledger.dialects.messages.json_numbers import INEXACT
from changeledger.dialects.messages.message_rows import Outcome
from changeledger.dialects.messages.problems import Problem, of_columns
from changeledger.dialects.plan import TablePlan
from changeledger.dialects.qlik_messages import avro, incomplete, masks, positions, single, typed
from changeledger.dialects.qlik_messages.events import DELETE, OPERATIONS, REFRESH, UPDATE, Event
from changeledger.dialects.qlik_messages.findings import are_of_key, changed, mask_disagrees
from changeledger.dialects.qlik_messages.masks import Masks
from changeledger.dialects.qlik_messages.positions import Positions
from changeledger.dialects.qlik_messages.sides import Side, side, with_gaps
from changeledger.kernels import changes, images, lsn
from changeledger.kernels.arrow import Bools, valid
from changeledger.kernels.changes import Changes
from changeledger.model import change
from changeledger.model.contract import Contract


class Read(NamedTuple):
    """n events of a table, read as far as possible. `key` has the cells of the key."""

    events: Sequence[Event]
    place: Positions
    change_mask: Masks
    column_mask: Masks
    before: Side
    after: Side
    key: list[pa.Array]
    # Events whose before image has another key.
    has_other_key: Bools
    # n x columns: the cells that rows lack although the message says that they are there.
    lacks: Bools

    def are(self, operation: str) -> Bools:
        return np.array([event.operation == operation for event in self.events], np.bool_)


def decode(raw: pa.RecordBatch, plan: TablePlan) -> pa.RecordBatch:
    """Returns a `message_rows.decoded_schema` row for each message (`arrow.MESSAGE`), in their order."""
    binary = {column.name.lower(): column.spark_type == "binary" for column in plan.writer_schema.columns}
    values, broken = avro.in_json(raw, dict(plan.avro_schemas), binary)
    events, others = one_by_one.read(
        values, typed.reader_of(plan.writer_schema),
        lambda at, value: broken[at].outcome if at in broken else single.read(at, value, plan),
    )  # fmt: skip
    rows = np.array([event.at for event in events], np.int64)
    of_events = raw if len(rows) == raw.num_rows else raw.take(pa.array(rows))
    read = _read(events, of_events, plan)
    bad: dict[int, Outcome] = {}
    for number, problem in _problems(read, plan):
        bad.setdefault(number, problem.outcome)
    if plan.masks_unreadable is not None:
        closed = Outcome(change.QUARANTINED, "mask_order_contradicted", plan.masks_unreadable[:500])
        masked = [number for number, event in enumerate(events) if event.change_mask]
        bad = dict.fromkeys(masked, closed) | bad
    others |= {events[number].at: outcome for number, outcome in bad.items()}
    canonical = changes.ledger_rows(
        _changes(read, of_events, plan), plan.contract, plan.feed.feed, plan.feed.dialect, plan.window_id
    )
    if bad:
        good = np.array([number for number in range(len(events)) if number not in bad], np.int64)
        canonical, rows = canonical.take(pa.array(good)), rows[good]
    others = foreign.named(raw, others, avro.DIALECT, {at: values[at] for at in others})
    return message_rows.decoded(raw, canonical, rows, others, plan.contract)


def _read(events: Sequence[Event], raw: pa.RecordBatch, plan: TablePlan) -> Read:
    writer_schema = plan.writer_schema
    ordinals = [column.ordinal for column in writer_schema.columns]
    order = writer_schema.mask_order or "big"
    # An empty text is no mask; a mask of no column is 00.
    of_changes, of_columns = (
        masks.read(pa.array([getattr(event, name) or None for event in events], pa.string()), ordinals, order)
        for name in ("change_mask", "column_mask")
    )
    is_delete, is_update = (
        np.array([event.operation == kind for event in events], np.bool_) for kind in (DELETE, UPDATE)
    )
    before = side([event.before for event in events], writer_schema, is_delete)
    after = side([event.after for event in events], writer_schema)
    lacks = incomplete.cells(before, after, of_changes, of_columns, plan)
    # A null that follows a value means NULL.
    is_silent = (is_update & ~of_columns.known)[:, None] & before.is_null
    before = with_gaps(before, of_columns.absent, writer_schema, is_delete=is_delete, is_silent=True)
    after = with_gaps(after, of_columns.absent, writer_schema, is_delete=is_delete, is_silent=is_silent)
    key, has_other_key = images.keys(before.image, after.image, is_delete, writer_schema)
    place = positions.positions(events, raw.column("timestamp"))
    return Read(events, place, of_changes, of_columns, before, after, key, has_other_key, lacks)


def _problems(read: Read, plan: TablePlan) -> Iterator[tuple[int, Problem]]:
    """Yields the problems of events, with the events' numbers. The first problem of an event counts."""
    yield from _problems_of_place(read)
    for number in np.flatnonzero(read.before.inexact | read.after.inexact).tolist():
        yield number, Problem("inexact_number", INEXACT)
    unfit = (read.before.unfit, read.after.unfit)
    yield from of_columns([event.unknown for event in read.events], unfit, plan.writer_schema)
    for cells in read.key:
        for number in np.flatnonzero(~valid(cells)).tolist():
            yield number, Problem("null_key", "a column of the key is NULL")
    for number in np.flatnonzero(read.lacks.any(axis=1)).tolist():
        yield number, incomplete.problem(read.lacks[number], plan)


def _problems_of_place(read: Read) -> Iterator[tuple[int, Problem]]:
    place, events, has_sequence = read.place, read.events, valid(read.place.sequence)
    # An empty mask is none.
    for reason, name, values, is_read in (
        ("malformed_mask", "changeMask", [e.change_mask or None for e in events], read.change_mask.known),
        ("malformed_mask", "columnMask", [e.column_mask or None for e in events], read.column_mask.known),
        ("malformed_sequence", "changeSequence", [e.sequence for e in events], has_sequence),
        ("malformed_counter", "transactionEventCounter", [e.counter for e in events], valid(place.ordinal)),
        ("malformed_time", "timestamp", [e.timestamp for e in events], ~place.bad_time),
    ):
        is_stated = np.array([value is not None for value in values], np.bool_)
        for number in np.flatnonzero(is_stated & ~is_read).tolist():
            yield number, Problem(reason, f"{name} is {values[number]}")
    for number in np.flatnonzero(~read.are(REFRESH) & ~has_sequence & ~place.commit_lsn.known).tolist():
        yield number, Problem("no_position", "neither streamPosition nor changeSequence has a position")


def _changes(read: Read, raw: pa.RecordBatch, plan: TablePlan) -> Changes:
    writer_schema, contract = plan.writer_schema, plan.contract
    before, after = read.before.image, read.after.image
    knows_old_key = _knows_old_key(read, writer_schema)
    moved = read.has_other_key & knows_old_key
    changed_columns = changed(read.before, read.after, read.are(UPDATE), read.change_mask, writer_schema)
    flags = _flags(read, moved, knows_old_key, writer_schema)
    before, after, key = images.all_fitted(before, after, read.key, writer_schema, contract)
    rows, place = len(read.events), read.place
    return Changes(
        operation=pa.array([OPERATIONS[event.operation] for event in read.events], pa.string()),
        before=before,
        after=after,
        key=key,
        moved=moved,
        changed=changed_columns,
        commit_lsn=place.commit_lsn,
        change_lsn=lsn.unknown(rows),
        event_serial_no=place.ordinal,
        sort_key=positions.sort_keys(place, read.events, raw),
        committed_at=place.committed_at,
        transaction_id=pa.array([event.transaction for event in read.events], pa.string()),
        flags=flags,
        source_position=message_rows.record(raw),
        mask=pa.array([event.change_mask or None for event in read.events], pa.string()),
    )


def _knows_old_key(read: Read, writer_schema: Contract) -> Bools:
    is_known = read.are(UPDATE) & read.before.image.present
    for cells in images.key(read.before.image, writer_schema):
        is_known &= valid(cells)
    return is_known


def _flags(read: Read, moved: Bools, knows_old_key: Bools, writer_schema: Contract) -> dict[str, Bools]:
    """Returns the flags in the order in which they are written."""
    is_update, is_refresh = read.are(UPDATE), read.are(REFRESH)
    key_in_mask = read.change_mask.columns[:, are_of_key(writer_schema)].any(axis=1)
    place = read.place
    # Both order changes: a change that lacks one of them sorts before all changes that have it.
    has_position = np.array([positions.is_one(event.position) for event in read.events], np.bool_)
    return {
        change.POSITION_UNKNOWN: is_refresh,
        change.BEFORE_UNKNOWN: is_update & ~read.before.image.present,
        change.OLD_KEY_UNKNOWN: is_update & key_in_mask & ~knows_old_key,
        change.KEY_CHANGED: moved,
        change.ORDER_AMBIGUOUS: ~is_refresh & ~(valid(place.sequence) & has_position),
        change.MASK_DISAGREES: mask_disagrees(
            read.before, read.after, [event.operation for event in read.events], read.change_mask,
            read.column_mask, writer_schema,
        ),
        change.CLOCK_SUSPECT: place.is_suspect,
    }  # fmt: skip
