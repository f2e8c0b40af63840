"""Canonical changes: builds the ledger's columns from what a dialect has read, alike for all dialects."""

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
    batch_of,
    ledger_schema,
    named_where,
    places,
    row_type,
    same,
    valid,
)
from changeledger.kernels.images import Image
from changeledger.kernels.lsn import Lsns
from changeledger.model import change
from changeledger.model.column_names import folded
from changeledger.model.contract import Contract


@dataclass(frozen=True)
class Changes:
    """n changes as a dialect reads them. Images and keys are in the contract's columns."""

    operation: pa.StringArray
    before: Image
    after: Image
    # The cells of each row's key. `moved`: the changes whose before image has another key.
    key: Sequence[pa.Array]
    moved: Bools
    changed: pa.ListArray
    commit_lsn: Lsns
    change_lsn: Lsns
    event_serial_no: pa.Int64Array
    sort_key: pa.BinaryArray
    committed_at: pa.TimestampArray
    transaction_id: pa.StringArray
    # By flag name, in the order in which flags are written.
    flags: Mapping[str, Bools]
    source_position: pa.StructArray
    # Hex digits of the change mask as the record has it; None if the dialect has no masks.
    mask: pa.StringArray | None = None
    # Position of the record with an update's old values, if that is a separate record.
    paired_source_position: pa.StructArray | None = None


def ledger_rows(  # noqa: PLR0913, PLR0917 - what a ledger says of a change beside what it did
    changes: Changes, contract: Contract, feed: str, dialect: str, window_id: str, whole: Bools | None = None
) -> pa.RecordBatch:
    """Returns the changes in the ledger's columns. `whole`: the changes that get an id now (None: all)."""
    rows = len(changes.operation)
    keys = row_type(contract.key)
    old_key = images.key(changes.before, contract)
    moved = None if changes.moved.all() else pa.array(~changes.moved)
    # A truncate concerns the table, not a row.
    no_row = pc.equal(changes.operation, change.TRUNCATE)
    by_name = {
        "change_id": change_ids(changes, contract) if whole is None else ids_of(changes, whole, contract),
        "operation": changes.operation,
        "key": _struct(changes.key, keys, rows, no_row if pc.any(no_row).as_py() else None),
        "previous_key": _struct(old_key, keys, rows, moved),
        "before": images.struct(changes.before, contract.columns),
        "after": images.struct(changes.after, contract.columns),
        "before_unknown_columns": images.gaps(changes.before, contract.names),
        "after_unknown_columns": images.gaps(changes.after, contract.names),
        "changed": _in_names(changes.changed, contract.names),
        "mask": changes.mask,
        "commit_lsn": changes.commit_lsn.array(),
        "change_lsn": changes.change_lsn.array(),
        "event_serial_no": changes.event_serial_no,
        "sort_key": changes.sort_key,
        "committed_at": changes.committed_at,
        "transaction_id": changes.transaction_id,
        "flags": flags(changes.flags, rows),
        "feed": feed,
        "dialect": dialect,
        "source_position": changes.source_position,
        "paired_source_position": changes.paired_source_position,
        "window_id": window_id,
    }
    return batch_of(by_name, ledger_schema(contract))


def _in_names(changed: pa.ListArray, names: Sequence[str]) -> pa.ListArray:
    """Spells the columns as the contract does: records of a window may write a name in another case."""
    written, own = changed.flatten().dictionary_encode(), {folded(name): name for name in names}
    said = written.dictionary.to_pylist()
    meant = [own.get(folded(name), name) for name in said]
    if meant == said:
        return changed
    spelled = pa.array(meant, pa.string()).take(written.indices)
    lengths = pc.fill_null(pc.list_value_length(changed), 0).to_numpy()
    offsets = pa.array(np.concatenate(([0], np.cumsum(lengths))).astype(np.int32))
    return pa.ListArray.from_arrays(offsets, spelled, mask=changed.is_null() if changed.null_count else None)


def _struct(
    cells: Sequence[pa.Array], kind: pa.StructType, rows: int, mask: pa.Array | None = None
) -> pa.StructArray:
    if not len(kind):
        # A table without a key has an empty key struct, which Arrow builds only from Python values.
        absent = [False] * rows if mask is None else mask.to_pylist()
        return pa.array([None if is_absent else {} for is_absent in absent], kind)
    return pa.StructArray.from_arrays(list(cells), fields=list(kind), mask=mask)


def flags(conditions: Mapping[str, Bools], rows: int) -> pa.ListArray:
    """Returns array<string> of the flags that are set; NULL if none is set."""
    is_set = np.column_stack([*conditions.values(), np.zeros(rows, np.bool_)])[:, :-1]
    return named_where(is_set, list(conditions), np.logical_or.reduce(is_set, axis=1))


def taken(changes: Changes, rows: Indices) -> Changes:
    """Takes the changes of these rows, in their order."""
    at = pa.array(rows)
    values: dict[str, Any] = {}
    for field in fields(changes):
        value = getattr(changes, field.name)
        if isinstance(value, Image):
            states = None if value.states is None else value.states[rows]
            values[field.name] = Image(value.present[rows], [cell.take(at) for cell in value.cells], states)
        elif isinstance(value, Lsns):
            values[field.name] = Lsns(value.digits[rows], value.known[rows])
        elif isinstance(value, Mapping):
            values[field.name] = {name: flag[rows] for name, flag in value.items()}
        elif isinstance(value, np.ndarray):
            values[field.name] = value[rows]
        elif isinstance(value, pa.Array):
            values[field.name] = value.take(at)
        else:
            values[field.name] = value and [cell.take(at) for cell in value]
    return Changes(**values)


def ids_of(changes: Changes, rows: Bools, contract: Contract) -> pa.StringArray:
    """Returns the `change_ids` of these rows; NULL for the others."""
    at = np.flatnonzero(rows)
    ids = change_ids(changes if rows.all() else taken(changes, at), contract)
    return ids if rows.all() else ids.take(places(at, len(rows)))


def change_ids(changes: Changes, contract: Contract) -> pa.StringArray:
    """Returns stable ids: hashes of the table, the operation, the sort key and both images.

    The raw record's position is hashed, too, where the sort key cannot tell equal changes apart: if the
    position in the log is unknown, for repairs, and for snapshot rows of a table without a key, which share a
    sort key. An `offset` beside a `row` only numbers equal rows of a table, and is left out.
    """
    rows = len(changes.operation)
    said = fingerprints.begun_chains(rows)
    for number, image in enumerate((changes.before, changes.after)):
        cells = [fingerprints.widest(cell) for cell in image.cells]
        said = fingerprints.of_image(said, cells, contract.names, number)
    parts = [same(contract.table, rows), changes.operation, changes.sort_key, _place(changes, contract)]
    return fingerprints.as_text(fingerprints.of_parts(said, parts))


def _place(changes: Changes, contract: Contract) -> pa.StructArray:
    nowhere = np.zeros(len(changes.operation), np.bool_)
    for name in (change.POSITION_UNKNOWN, change.REPAIRED):
        nowhere = nowhere | changes.flags.get(name, nowhere)
    if not contract.key:
        nowhere = nowhere | pc.equal(changes.operation, change.SNAPSHOT).to_numpy(zero_copy_only=False)
    if not nowhere.any():
        return pa.nulls(len(nowhere), RECORD)
    source, partition, offset, row = changes.source_position.flatten()
    offset = pc.if_else(pa.array(valid(row)), pa.scalar(None, pa.int64()), offset)
    mask = pa.array(~nowhere)
    return pa.StructArray.from_arrays([source, partition, offset, row], fields=list(RECORD), mask=mask)
