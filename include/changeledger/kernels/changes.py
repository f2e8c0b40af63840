"""Canonical changes: the ledger's columns from what a dialect has read, the same for all dialects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.kernels import fingerprints, images
from changeledger.kernels.arrow import (
    RECORD,
    Bools,
    Indices,
    ledger_schema,
    named_where,
    places,
    row_type,
    valid,
)
from changeledger.kernels.images import Image
from changeledger.kernels.lsn import Lsns
from changeledger.model import change
from changeledger.model.contract import Contract


@dataclass(frozen=True)
class Changes:
    """n changes as a dialect has read them; images and keys in the contract's columns."""

    operation: pa.StringArray
    before: Image
    after: Image
    # The row's key, and which changes moved the row away from the key of their image before.
    key: Sequence[pa.Array]
    moved: Bools
    changed: pa.ListArray
    commit_lsn: Lsns
    change_lsn: Lsns
    event_serial_no: pa.Int64Array
    sort_key: pa.BinaryArray
    committed_at: pa.TimestampArray
    transaction_id: pa.StringArray
    # By the names of flags, in the order in which they are written.
    flags: Mapping[str, Bools]
    source_position: pa.StructArray
    # Hex digits of the change mask, as the record has it; None if the dialect has none.
    mask: pa.StringArray | None = None
    # Where the row of an update's old values stands, where that is a record of its own.
    paired_source_position: pa.StructArray | None = None


def ledger_rows(  # noqa: PLR0913, PLR0917 - what a ledger says of a change beside what it did
    found: Changes, contract: Contract, feed: str, dialect: str, window_id: str, whole: Bools | None = None
) -> pa.RecordBatch:
    """The ledger's columns of the changes. `whole`: which of them get an id already; None: all."""
    rows = len(found.operation)
    keys = row_type(contract.key)
    old_key = images.key(found.before, contract)
    moved = None if found.moved.all() else pa.array(~found.moved)
    # A truncate is of the table, not of a row.
    no_row = pc.equal(found.operation, change.TRUNCATE)
    by_name = {
        "change_id": change_ids(found, contract) if whole is None else _ids_of(found, whole, contract),
        "operation": found.operation,
        "key": _struct(found.key, keys, rows, no_row if pc.any(no_row).as_py() else None),
        "previous_key": _struct(old_key, keys, rows, moved),
        "before": images.struct(found.before, contract.columns),
        "after": images.struct(found.after, contract.columns),
        "before_unknown_columns": images.gaps(found.before, contract.names),
        "after_unknown_columns": images.gaps(found.after, contract.names),
        "changed": found.changed,
        **({"mask": found.mask} if found.mask is not None else {}),
        "commit_lsn": found.commit_lsn.array(),
        "change_lsn": found.change_lsn.array(),
        "event_serial_no": found.event_serial_no,
        "sort_key": found.sort_key,
        "committed_at": found.committed_at,
        "transaction_id": found.transaction_id,
        "flags": flags(found.flags, rows),
        "feed": _same(feed, rows),
        "dialect": _same(dialect, rows),
        "source_position": found.source_position,
        **(
            {"paired_source_position": paired} if (paired := found.paired_source_position) is not None else {}
        ),
        "window_id": _same(window_id, rows),
    }
    schema = ledger_schema(contract)
    columns = [by_name[f.name] if f.name in by_name else pa.nulls(rows, f.type) for f in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _struct(
    cells: Sequence[pa.Array], kind: pa.StructType, rows: int, mask: pa.Array | None = None
) -> pa.StructArray:
    if not len(kind):
        # A table without a key has an empty one, which Arrow makes of Python's values alone.
        absent = [False] * rows if mask is None else mask.to_pylist()
        return pa.array([None if one else {} for one in absent], kind)
    return pa.StructArray.from_arrays(list(cells), fields=list(kind), mask=mask)


def _same(text: str, rows: int) -> pa.StringArray:
    return pa.array([text], pa.string()).take(pa.array(np.zeros(rows, np.int32)))


def flags(conditions: Mapping[str, Bools], rows: int) -> pa.ListArray:
    """array<string> of the flags that are set; NULL if none is."""
    found = np.column_stack([*conditions.values(), np.zeros(rows, np.bool_)])[:, :-1]
    return named_where(found, list(conditions), np.logical_or.reduce(found, axis=1))


def taken(found: Changes, rows: Indices) -> Changes:
    """The changes of those rows, in their order."""
    at = pa.array(rows)
    values: dict[str, Any] = {}
    for field in fields(found):
        one = getattr(found, field.name)
        if isinstance(one, Image):
            states = None if one.states is None else one.states[rows]
            values[field.name] = Image(one.present[rows], [cell.take(at) for cell in one.cells], states)
        elif isinstance(one, Lsns):
            values[field.name] = Lsns(one.digits[rows], one.known[rows])
        elif isinstance(one, Mapping):
            values[field.name] = {name: flag[rows] for name, flag in one.items()}
        elif isinstance(one, np.ndarray):
            values[field.name] = one[rows]
        elif isinstance(one, pa.Array):
            values[field.name] = one.take(at)
        else:
            values[field.name] = one and [cell.take(at) for cell in one]
    return Changes(**values)


def _ids_of(found: Changes, rows: Bools, contract: Contract) -> pa.StringArray:
    at = np.flatnonzero(rows)
    ids = change_ids(found if rows.all() else taken(found, at), contract)
    return ids if rows.all() else ids.take(places(at, len(rows)))


def change_ids(found: Changes, contract: Contract) -> pa.StringArray:
    """The stable ids: over the table, what the change did, its position, and its images.

    Where no source gives a position, the same words elsewhere are another change; so are the rows of a
    snapshot, which share theirs, where there is no key: then the record's place counts, too. A
    number among equal rows of a table (`offset` beside `row`) is no place.
    """
    rows = len(found.operation)
    said = fingerprints.begun(rows)
    for number, image in enumerate((found.before, found.after)):
        cells = [fingerprints.widest(cell) for cell in image.cells]
        said = fingerprints.of_image(said, cells, contract.names, number)
    parts = [_same(contract.table, rows), found.operation, found.sort_key, _place(found, contract)]
    return fingerprints.as_text(fingerprints.of_parts(said, parts))


def _place(found: Changes, contract: Contract) -> pa.StructArray:
    nowhere = np.zeros(len(found.operation), np.bool_)
    for name in (change.POSITION_UNKNOWN, change.REPAIRED):
        nowhere = nowhere | found.flags.get(name, nowhere)
    if not contract.key:
        nowhere = nowhere | pc.equal(found.operation, change.SNAPSHOT).to_numpy(zero_copy_only=False)
    if not nowhere.any():
        return pa.nulls(len(nowhere), RECORD)
    source, partition, offset, row = found.source_position.flatten()
    offset = pc.if_else(pa.array(valid(row)), pa.scalar(None, pa.int64()), offset)
    mask = pa.array(~nowhere)
    return pa.StructArray.from_arrays([source, partition, offset, row], fields=list(RECORD), mask=mask)
