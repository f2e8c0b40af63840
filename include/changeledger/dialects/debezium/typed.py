"""Decodes events with typed structs, a whole batch into columns: the fast path for usual records.

A record that does not decode, or that a column check marks as doubtful, is left to `single`. A record that is
accepted here must have no problem that `single` would find.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET

from changeledger.dialects.debezium import events, incomplete
from changeledger.dialects.debezium.plan import TablePlan
from changeledger.dialects.debezium.structs import SNAPSHOTS, Typed, typed
from changeledger.dialects.debezium.values import UNUSUAL, Cell
from changeledger.kernels import lsn, sql_text
from changeledger.kernels.arrow import Bools, Indices, empty, flags_of, places, valid
from changeledger.kernels.cells import KNOWN, NOT_CAPTURED, UNAVAILABLE, Cells, each
from changeledger.kernels.images import Image
from changeledger.kernels.json_text import UNREADABLE

# Messages per step, few enough to stay in the processor's cache.
_AT_ONCE = 500
_OF_MESSAGE = ("op", "sent_ms", "transaction")
_OF_SOURCE = ("connector", "snapshot", "ts_ms", "commit_lsn", "change_lsn", "lsn", "event_serial_no")


class _Gathered:
    """Values gathered from messages: one list per member and per column of an image."""

    def __init__(self, how: Typed) -> None:
        self.rows: list[int] = []
        self.members: dict[str, list[Any]] = {name: [] for name in (*_OF_MESSAGE, *_OF_SOURCE)}
        # For the before and the after image: which messages have it, and the cells of those that do.
        self.present: tuple[list[bool], list[bool]] = ([], [])
        self.cells: tuple[list[list[Any]], list[list[Any]]] = (
            [[] for _ in how.cells],
            [[] for _ in how.cells],
        )

    def add(self, rows: Sequence[int], messages: Sequence[Any]) -> None:
        self.rows += rows
        said, sources = self.members, [message.source for message in messages]
        said["op"] += [message.op for message in messages]
        said["sent_ms"] += [message.ts_ms for message in messages]
        said["transaction"] += [message.transaction and message.transaction.id for message in messages]
        for name in _OF_SOURCE:
            said[name] += map(attrgetter(name), sources)
        for side, images in enumerate(
            ([message.before for message in messages], [message.after for message in messages])
        ):
            self.present[side].extend([side_image is not None for side_image in images])
            some = [side_image for side_image in images if side_image is not None]
            columns = zip(*map(msgspec.structs.astuple, some), strict=True)
            for known, cells in zip(self.cells[side], columns, strict=False):
                known.extend(cells)


def read(
    values: Sequence[bytes | None], rows: Sequence[int], plan: TablePlan
) -> tuple[pa.RecordBatch, Sequence[int]]:
    """Returns the events of the JSON messages with these numbers, and the numbers left to `single`."""
    if plan.unions:
        # Union values are unwrapped one message at a time.
        return empty(events.schema(plan.writer_schema)), rows
    how = typed(plan)
    gathered = _Gathered(how)
    for start in range(0, len(rows), _AT_ONCE):
        gathered.add(*_messages(values, rows[start : start + _AT_ONCE], how))
    if not gathered.rows:
        return empty(events.schema(plan.writer_schema)), rows
    batch, doubtful = _columns(gathered, how, plan)
    if doubtful.any():
        batch = batch.filter(pa.array(~doubtful))
    is_unusual = np.zeros(len(values), np.bool_)
    is_unusual[np.array(rows, np.int64)] = True
    is_unusual[batch.column("at").to_numpy()] = False
    return batch, np.flatnonzero(is_unusual).tolist()


def _messages(values: Sequence[bytes | None], rows: Sequence[int], how: Typed) -> tuple[list[int], list[Any]]:
    """Returns the messages of these rows that decode and have `source` and `op`, with their numbers."""
    decode = how.decoder.decode
    some = [at for at in rows if values[at] is not None]
    try:
        messages = [decode(values[at] or b"") for at in some]
    except UNREADABLE:
        messages = [_message(values[at] or b"", how) for at in some]
    messages = [message.payload or message for message in messages]
    good = [message.source is not None and message.op is not None for message in messages]
    if not all(good):
        some = [at for at, is_good in zip(some, good, strict=True) if is_good]
        messages = [message for message, is_good in zip(messages, good, strict=True) if is_good]
    return some, messages


def _message(value: bytes, how: Typed) -> Any:
    """Returns a decoded message, without members if it does not decode."""
    try:
        return how.decoder.decode(value)
    except UNREADABLE:
        return how.decoder.decode(b"{}")


def _columns(gathered: _Gathered, how: Typed, plan: TablePlan) -> tuple[pa.RecordBatch, Bools]:
    """Returns the events as columns, and which of them are doubtful."""
    said = gathered.members
    texts = [pa.array(said[name], pa.string()) for name in ("commit_lsn", "change_lsn")]
    lsns = [lsn.parse_all(lsn_texts) for lsn_texts in texts]
    op, connector = (pa.array(said[name], pa.string()) for name in ("op", "connector"))
    times = pa.array(said["ts_ms"], pa.int64())
    wal = _of_others(connector, pa.array(said["lsn"], pa.int64()))
    ordinal, doubtful = _ordinals(said["event_serial_no"])
    snapshots = _snapshots(said["snapshot"])
    doubtful |= valid(snapshots) & ~flags_of(pc.is_in(snapshots, pa.array(sorted(SNAPSHOTS))))
    for text, parsed in zip(texts, lsns, strict=True):
        # Text that is not an LSN.
        doubtful |= valid(text) & ~parsed.known
    doubtful |= ~valid(times) | ~(lsns[0].known | valid(wal))
    columns = [
        pa.array(gathered.rows, pa.int64()),
        op,
        connector,
        snapshots,
        times,
        pa.array(said["sent_ms"], pa.int64()),
        *(column_lsns.array() for column_lsns in lsns),
        wal,
        ordinal,
        pa.array(said["transaction"], pa.string()),
    ]
    images = []
    for present, cells in zip(gathered.present, gathered.cells, strict=True):
        side_image, unusual = _image(np.flatnonzero(np.array(present, np.bool_)), cells, how, len(present))
        doubtful |= unusual
        images.append(side_image)
        columns += events.image_columns(side_image, len(how.cells))
    is_delete = pc.equal(op, "d").to_numpy(zero_copy_only=False)
    before, after = images
    doubtful |= incomplete.rows(before, after, plan)
    doubtful |= ~np.where(is_delete, before.present, after.present)
    for at in how.keys:
        doubtful |= ~np.where(is_delete, valid(before.cells[at]), valid(after.cells[at]))
    return pa.RecordBatch.from_arrays(columns, schema=events.schema(plan.writer_schema)), doubtful


def _of_others(connector: pa.StringArray, wal: pa.Int64Array) -> pa.Int64Array:
    """Returns the 64-bit positions of events from connectors other than SQL Server's, NULL for the rest."""
    is_other = pc.fill_null(pc.not_equal(connector, "sqlserver"), fill_value=False)
    return pc.if_else(is_other, wal, pa.scalar(None, pa.int64()))


def _ordinals(values: Sequence[int | str | None]) -> tuple[pa.Int64Array, Bools]:
    """Returns the serial numbers, and which of the values are given but no number."""
    try:
        array = pa.array(values, pa.int64())
    except UNUSUAL:
        counts = [sql_text.count(value) if isinstance(value, str) else value for value in values]
        array = pa.array(counts, pa.int64())
    if not array.null_count:
        return array, np.zeros(len(values), np.bool_)
    return array, ~valid(array) & np.fromiter((value is not None for value in values), np.bool_, len(values))


def _snapshots(values: Sequence[str | bool | None]) -> pa.StringArray:
    try:
        texts = pa.array(values, pa.string())
    except UNUSUAL:
        texts = pa.array([str(value) if isinstance(value, bool) else value for value in values], pa.string())
    return pc.utf8_lower(texts)


def _image(rows: Indices, columns: Sequence[Sequence[Any]], how: Typed, size: int) -> tuple[Image, Bools]:
    """Returns one side of `size` events, and which events have an unusual cell.

    `rows`: the events that have the image. `columns`: the cells of these events, as msgspec decoded them.
    """
    unusual = np.zeros(size, np.bool_)
    present = np.zeros(size, np.bool_)
    present[rows] = True
    if not len(rows):
        return Image(present, [pa.nulls(size, kind) for kind in how.kinds], None), unusual
    states = np.zeros((size, len(how.cells)), np.uint8)
    where = None if len(rows) == size else places(rows, size)
    cells = []
    for at, (cell, values) in enumerate(zip(how.cells, columns, strict=True)):
        converted, held = _cells(values, cell)
        if held is not None:
            states[rows, at] = held
        if converted.unfit is not None:
            unusual[rows[converted.unfit]] = True
        cells.append(converted.values if where is None else converted.values.take(where))
    return Image(present, cells, states if states.any() else None), unusual


def _cells(values: Sequence[Any], cell: Cell) -> tuple[Cells, Any]:
    """Returns the cells of a column and their states, or None for the states if all are known."""
    try:
        return _converted(values, cell)
    except UNUSUAL:
        absent = np.fromiter((value is UNSET for value in values), np.bool_, len(values))
        present = [None if value is UNSET else value for value in values]
        try:
            converted, held = _converted(present, cell)
        except UNUSUAL:
            # Usually times as text. A placeholder among them is left to `single`.
            kind = cell.convert([]).values.type
            converted, held = each(present, lambda value: _read(value, cell), kind), None
        states = np.zeros(len(values), np.uint8) if held is None else held
        states[absent] = NOT_CAPTURED
        return converted, states


def _read(value: Any, cell: Cell) -> Any:
    return cell.read(value) if isinstance(value, str) else cell.of_unquoted(str(value))


def _converted(values: Sequence[Any], cell: Cell) -> tuple[Cells, Any]:
    if not cell.is_text:
        return cell.convert(values), None
    texts = pa.array(values, pa.string())
    is_placeholder = pc.is_in(texts, pa.array(cell.placeholders))
    if not pc.any(is_placeholder).as_py():
        return cell.convert(texts), None
    held = np.where(flags_of(is_placeholder), UNAVAILABLE, KNOWN).astype(np.uint8)
    return cell.convert(pc.if_else(is_placeholder, pa.scalar(None, pa.string()), texts)), held
