"""Decodes the messages of one table: each becomes a row with a canonical change or another outcome."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.dialects.ces import incomplete, key_beside, positions, single, split, typed
from changeledger.dialects.ces.events import DELETE, INSERT, UPDATE, Event
from changeledger.dialects.ces.positions import Positions, Times
from changeledger.dialects.ces.sides import Side, side, with_unsent
from changeledger.dialects.messages import foreign, message_rows, one_by_one
from changeledger.dialects.messages.message_rows import Outcome
from changeledger.dialects.messages.problems import Problem, named, of_columns
from changeledger.dialects.plan import TablePlan
from changeledger.kernels import changes, clocks, images, lsn
from changeledger.kernels.arrow import Bools, numbers, valid
from changeledger.kernels.cells import KNOWN
from changeledger.kernels.changes import Changes
from changeledger.model import change

DIALECT = "ces"
TRUNCATED = "truncated"
UNKNOWN_VERSION = "unknown_version"
UNEXPECTED_IMAGE = "unexpected_image"
POSITION_DISAGREES = "position_disagrees"
_OPERATIONS = {INSERT: change.INSERT, UPDATE: change.UPDATE, DELETE: change.DELETE}


class Read(NamedTuple):
    """n events of a table, read as far as possible."""

    events: Sequence[Event]
    place: Positions
    time: Times
    before: Side
    after: Side
    # The cells of each row's key.
    key: list[pa.Array]
    # Events whose before image has another key.
    has_other_key: Bools
    is_update: Bools
    is_delete: Bools
    # Events whose `pkkey` is in none of their images.
    is_of_other_key: Bools
    # n x columns: the cells that their current images lack.
    lacks: Bools


def decode(raw: pa.RecordBatch, plan: TablePlan) -> pa.RecordBatch:
    """Returns a row (`message_rows.decoded_schema`) for each message of a table, in their order.

    `raw` is `arrow.MESSAGE`, or `split.JOINED`: then the rows of an event's other segments follow its own.
    """
    events, others = one_by_one.read(
        raw.column("value").to_pylist(), typed.reader_of(plan.writer_schema),
        lambda at, value: single.read(at, value, plan),
    )  # fmt: skip
    read = _read(events, plan)
    bad: dict[int, Outcome] = {}
    for number, problem in _problems(read, plan):
        bad.setdefault(number, problem.outcome)
    others |= {events[number].at: outcome for number, outcome in bad.items()}
    good = np.array([number for number in range(len(events)) if number not in bad], np.int64)
    rows = np.array([event.at for event in events], np.int64)
    of_events = raw if len(rows) == raw.num_rows else raw.take(pa.array(rows))
    canonical = changes.ledger_rows(
        _changes(read, split.first_messages(of_events), plan), plan.contract,
        plan.feed.feed, plan.feed.dialect, plan.window_id,
    )  # fmt: skip
    if bad:
        canonical = canonical.take(pa.array(good))
    firsts = split.first_messages(raw)
    others = foreign.named(firsts, others, DIALECT)
    decoded = message_rows.decoded(firsts, canonical, rows[good], others, plan.contract)
    return split.with_segments(decoded, raw, lambda row: others.get(row) or split.of_whole_event(firsts, row))


def _read(events: Sequence[Event], plan: TablePlan) -> Read:
    writer_schema = plan.writer_schema
    before, after = (side([getattr(event, name) for event in events], plan) for name in ("before", "after"))
    before = with_unsent(before, after, events, writer_schema)
    operations = [event.operation for event in events]
    is_update, is_delete = (
        np.array([operation == name for operation in operations], np.bool_) for name in (UPDATE, DELETE)
    )
    key, has_other_key = images.keys(before.image, after.image, is_delete, writer_schema)
    place, time = positions.positions(events), positions.times(events)
    is_of_other_key = key_beside.contradicted(events, before, after, plan)
    lacks = incomplete.cells(events, before, after, plan)
    return Read(
        events, place, time, before, after, key, has_other_key, is_update, is_delete, is_of_other_key, lacks
    )


def _problems(read: Read, plan: TablePlan) -> Iterator[tuple[int, Problem]]:
    """Yields the problems of events, with the events' numbers. The first problem of an event counts."""
    events = read.events
    for number in np.flatnonzero(~(read.place.commit_lsn.known & valid(read.place.ordinal))).tolist():
        parts = {name: getattr(events[number], name) for name in ("logicalid", "commitlsn", "sequencenumber")}
        reason = "no_position" if set(parts.values()) == {None} else "malformed_position"
        yield number, Problem(reason, ", ".join(named(*part) for part in parts.items()))
    for number in np.flatnonzero(~valid(read.time.committed_at)).tolist():
        times = named("time", events[number].time), named("committime", events[number].committime)
        yield number, Problem("malformed_time", ", ".join(times))
    unfit = (read.before.unfit, read.after.unfit)
    yield from of_columns([event.unknown for event in events], unfit, plan.writer_schema)
    for cells in read.key:
        for number in np.flatnonzero(~valid(cells)).tolist():
            yield number, Problem("null_key", "a column of the key is NULL or missing")
    for number in np.flatnonzero(read.lacks.any(axis=1)).tolist():
        yield number, incomplete.problem(read.lacks[number], plan)
    for number in np.flatnonzero(read.is_of_other_key).tolist():
        what = "`pkkey` and the images have different keys, so the row is uncertain"
        yield number, Problem("key_disagrees", what)


def _changes(read: Read, raw: pa.RecordBatch, plan: TablePlan) -> Changes:
    writer_schema, contract = plan.writer_schema, plan.contract
    moved, changed = _moved(read, plan), _changed(read, plan)
    before, after, key = images.all_fitted(
        read.before.image, read.after.image, read.key, writer_schema, contract
    )
    operations = [event.operation for event in read.events]
    rows = len(operations)
    place = read.place
    return Changes(
        operation=pa.array([_OPERATIONS[operation] for operation in operations], pa.string()),
        before=before,
        after=after,
        key=key,
        moved=moved,
        changed=changed,
        commit_lsn=place.commit_lsn,
        change_lsn=lsn.unknown(rows),
        event_serial_no=place.ordinal,
        sort_key=positions.sort_keys(place, operations),
        committed_at=positions.committed(read.time, raw.column("timestamp")),
        transaction_id=lsn.to_text(place.commit_lsn),
        flags=_flags(read, moved, raw.column("timestamp")),
        source_position=message_rows.record(raw),
    )


def _moved(read: Read, plan: TablePlan) -> Bools:
    """Returns which updates have another key in their before image."""
    keys = [at for at, column in enumerate(plan.writer_schema.columns) if column.key_position]
    has_key: Bools = (read.before.states[:, keys] == KNOWN).all(axis=1)
    return read.has_other_key & has_key & read.is_update & read.before.image.present


def _changed(read: Read, plan: TablePlan) -> pa.ListArray:
    """Returns the names of the columns that updates change.

    An update changes something: if its images show no difference but have a gap, the names are unknown.
    """
    before = read.before.image.only(read.is_update)
    seen = images.changed(before, read.after.image, plan.writer_schema.names)
    has_gap = (read.before.states != KNOWN).any(axis=1) | (read.after.states != KNOWN).any(axis=1)
    empty = pc.fill_null(pc.equal(pc.list_value_length(seen), 0), fill_value=False)
    hidden = pc.and_(empty, pa.array(has_gap))
    if not pc.any(hidden).as_py():
        return seen
    return pc.if_else(hidden, pa.scalar(None, seen.type), seen)


def _flags(read: Read, moved: Bools, received: pa.TimestampArray) -> dict[str, Bools]:
    """Returns the flags in the order in which they are written."""
    has_old, has_current = (
        np.array([getattr(event, name) for event in read.events], np.bool_)
        for name in ("has_old", "has_current")
    )
    is_v1 = np.array([event.type.lower().endswith(".v1") for event in read.events], np.bool_)
    is_insert = ~read.is_update & ~read.is_delete
    committed = read.time.committed_at
    is_ahead = valid(received) & valid(committed) & clocks.is_ahead(numbers(committed), numbers(received))
    return {
        change.BEFORE_UNKNOWN: ~is_insert & ~has_old,
        change.KEY_CHANGED: moved,
        TRUNCATED: read.before.is_cut | read.after.is_cut,
        change.CLOCK_SUSPECT: read.time.is_suspect | is_ahead,
        UNKNOWN_VERSION: ~is_v1,
        # The image is unexpected, not the operation: the image of a delete may hold no more than its key.
        UNEXPECTED_IMAGE: (is_insert & has_old) | (read.is_delete & has_current),
        POSITION_DISAGREES: read.place.differs,
    }
