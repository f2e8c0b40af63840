"""Joins the two rows of an update, over all of a table's rows in a window.

The rows are matched by `pair_key`, not by adjacency. All rows of one `pair_key` must be in the batch, which
is the whole window or a bucket by `pair_key`. Rows that are not halves of updates pass through unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.dialects.messages import message_rows
from changeledger.dialects.plan import TablePlan
from changeledger.dialects.tables.outcomes import BEFORE, decoded_schema
from changeledger.kernels import changes, images, ledger, masks
from changeledger.kernels.arrow import (
    Bools,
    Indices,
    as_schema,
    batch_of,
    by_name,
    flags_of,
    named_where,
    valid,
    with_column,
)
from changeledger.kernels.cells import KNOWN, UNAVAILABLE
from changeledger.kernels.changes import Changes
from changeledger.kernels.images import Image
from changeledger.kernels.rows import as_batch
from changeledger.model import change

_AMBIGUOUS = "several before or after rows have the same position, and no key says which belong together"
_NO_AFTER = "the window is complete, but lacks the row with the new values"
_NONE = -1
# The flags that rows have before they are joined, in their order.
_EARLY = (change.MASK_DISAGREES, change.POSITION_UNKNOWN, change.CLOCK_SUSPECT, change.BEFORE_UNKNOWN)


@dataclass(frozen=True)
class _Halves:
    """n halves of updates."""

    batch: pa.RecordBatch
    is_before: Bools
    # By half: the first half of the other kind at its position (`pair_key`), or -1 if there is none.
    partner: Indices
    # Halves that repeat an earlier one, and halves at whose position those of one kind differ.
    again: Bools
    differs: Bools


def joined(decoded: pa.RecordBatch, plan: TablePlan) -> pa.RecordBatch:
    """Returns the same rows (`outcomes.decoded_schema`), in their order, each with its disposition.

    * An after row becomes a change. It takes over the before row's image and has its position as
      `paired_source_position`. If the two have different keys, the row moved.
    * An after row without a before row is legal: its before image is unknown.
    * A before row is `paired`, or quarantined if it has no after row.
    * A half that repeats an earlier one is a duplicate of it.
    * If halves of one kind differ, which of them belong together is unknown: all are quarantined.
    """
    # Batches may name the elements of lists differently.
    decoded = as_schema(decoded, decoded_schema(plan.contract))
    is_half = valid(decoded.column("pair_key"))
    at = np.flatnonzero(is_half)
    if not len(at):
        return decoded
    halves = _halves(decoded if is_half.all() else decoded.take(pa.array(at)))
    resolved = _resolved(halves, plan)
    if is_half.all():
        return resolved
    both = as_batch(pa.Table.from_batches([decoded.filter(pa.array(~is_half)), resolved]))
    order = np.concatenate([np.flatnonzero(~is_half), at])
    return both.take(pa.array(np.argsort(order)))


def _halves(batch: pa.RecordBatch) -> _Halves:
    position = batch.column("pair_key").dictionary_encode().indices.to_numpy().astype(np.int64)
    is_before = pc.equal(batch.column("part"), BEFORE).to_numpy(zero_copy_only=False)
    kind = position * 2 + is_before
    again = np.zeros(batch.num_rows, np.bool_)
    crowded = np.flatnonzero(np.bincount(kind)[kind] > 1)
    if len(crowded):
        in_order = crowded[_by_record(batch, kind, crowded)]
        kinds = kind[in_order]
        again[in_order[1:][kinds[1:] == kinds[:-1]]] = True
    # The first half by `kind`; that of the other kind is beside it.
    firsts = np.full(2 * int(position.max()) + 2, _NONE, np.int64)
    firsts[kind[~again]] = np.flatnonzero(~again)
    differs = np.zeros(int(position.max()) + 1, np.bool_)
    repeated = np.flatnonzero(again)
    if len(repeated):
        is_other = _differing(batch, repeated, firsts[kind[repeated]])
        differs[position[repeated[is_other]]] = True
    return _Halves(batch, is_before, firsts[kind ^ 1], again, differs[position])


def _by_record(batch: pa.RecordBatch, kind: Indices, rows: Indices) -> Indices:
    """Sorts the rows by update and half (`kind`), then by `source_position`. Returns their order."""
    record = batch.column("source_position").take(pa.array(rows))
    table = pa.Table.from_arrays([pa.array(kind[rows]), *record.flatten()], ["kind", "s", "p", "o", "r"])
    keys = [(name, "ascending", "at_start") for name in table.column_names]
    order: Indices = np.asarray(pc.sort_indices(table, sort_keys=keys), np.int64)
    return order


def _differing(batch: pa.RecordBatch, rows: Indices, firsts: Indices) -> Bools:
    """Returns which of the rows differ from the first one of their kind, in images or mask."""
    differing = np.zeros(len(rows), np.bool_)
    halves, first_halves = (batch.take(pa.array(at)) for at in (rows, firsts))
    for side in ("before", "after"):
        for cell, first in zip(
            halves.column(side).flatten(), first_halves.column(side).flatten(), strict=True
        ):
            differing |= images.differs(cell, first)
    return differing | images.differs(halves.column("mask"), first_halves.column("mask"))


def _resolved(halves: _Halves, plan: TablePlan) -> pa.RecordBatch:
    batch, size = halves.batch, halves.batch.num_rows
    lacks_after = halves.is_before & (halves.partner == _NONE)
    kinds = [halves.differs, halves.again, lacks_after, halves.is_before]
    # The first condition that holds selects the outcome below; 4 is a change.
    kind = np.select(kinds, range(4), 4)
    words = pa.array(kind, pa.int8())
    outcome = {
        "disposition": pa.array(
            [change.QUARANTINED, change.DUPLICATE, change.QUARANTINED, change.PAIRED, change.CHANGE]
        ).take(words),
        "reason": pa.array(
            ["ambiguous_pair", change.DELIVERED_AGAIN, change.BEFORE_WITHOUT_AFTER, None, None]
        ).take(words),
        "detail": pa.array([_AMBIGUOUS, None, _NO_AFTER, None, None]).take(words),
    }
    rows = np.flatnonzero(kind == 4)
    canonical = _changes(halves, rows, plan)
    # Of halves that did not become a change, later steps read only the position and the outcome.
    spread = message_rows.spread(canonical.columns, rows, size)
    columns = dict(zip(canonical.schema.names, spread, strict=True))
    columns["source_position"] = batch.column("source_position")
    columns |= outcome
    again = pa.array(kind == 1)
    columns["commit_lsn"] = pc.if_else(again, batch.column("commit_lsn"), columns["commit_lsn"])
    quarantined = pa.array((kind == 0) | (kind == 2))
    columns["raw_value"] = pc.if_else(quarantined, batch.column("raw_value"), pa.scalar(None, pa.binary()))
    return batch_of(by_name(batch) | columns, decoded_schema(plan.contract))


def _changes(halves: _Halves, rows: Indices, plan: TablePlan) -> pa.RecordBatch:
    """Returns the ledger's columns of the updates whose after rows are `rows`."""
    batch = halves.batch.take(pa.array(rows))
    partner = halves.partner[rows]
    paired = partner != _NONE
    old = halves.batch.take(pa.array(np.where(paired, partner, 0), mask=~paired))
    after = ledger.image(batch, "after", plan.contract)
    before = ledger.image(old, "before", plan.contract)
    key, old_key = (half.column("key").flatten() for half in (batch, old))
    moved = np.zeros(len(rows), np.bool_)
    for cell, new in zip(old_key, key, strict=True):
        moved |= images.differs(cell, new)
    emptied = _emptied(before, after, plan)
    if after.states is not None:
        after = replace(after, states=np.where(emptied, KNOWN, after.states))
    updates = ledger.changes(batch, before, after, key, moved & paired, old.column("source_position"))
    late = {
        change.BEFORE_UNKNOWN: ~paired,
        change.OLD_KEY_UNKNOWN: ~paired & _sets_key(updates, plan),
        change.KEY_CHANGED: updates.moved,
        change.MASK_DISAGREES: _masks_differ(old, batch) | _disagrees(updates, paired, plan),
    }
    feed = plan.feed
    columns = changes.ledger_rows(updates, plan.contract, feed.feed, feed.dialect, plan.window_id)
    return with_column(columns, "flags", _with_flags(batch.column("flags"), late))


def _masks_differ(old: pa.RecordBatch, new: pa.RecordBatch) -> Bools:
    """Returns where the two rows have different masks. A before row may have no mask, or an empty one."""
    old_mask, new_mask = old.column("mask"), new.column("mask")
    has_bits = pc.not_equal(pc.utf8_ltrim(old_mask, "0"), "")
    return flags_of(pc.and_(pc.not_equal(old_mask, new_mask), has_bits))


def _emptied(before: Image, after: Image, plan: TablePlan) -> Bools:
    """Returns (n x columns) the large values that an update set to NULL although its mask does not say so.

    The before row has a large value only if the update changed it (operation 3 of SQL Server's `_CT`). No
    update sets a column to NULL that cannot be NULL.
    """
    is_emptied = np.zeros((len(after.present), len(plan.contract.columns)), np.bool_)
    # A column that was just added can be NULL in the contract, whatever the feed states.
    never_null = set(plan.never_null)
    if after.states is not None:
        for at, column in enumerate(plan.contract.columns):
            if column.is_large and column.nullable and at not in never_null:
                is_emptied[:, at] = valid(before.cells[at]) & (after.states[:, at] == UNAVAILABLE)
    return is_emptied


def _sets_key(updates: Changes, plan: TablePlan) -> Bools:
    """Returns which updates have a mask that sets a column of the key."""
    names = [column.name for column in plan.contract.key]
    return masks.any_set(ledger.named(updates.changed, names))


def _disagrees(updates: Changes, paired: Bools, plan: TablePlan) -> Bools:
    """Returns which masks set other columns than those in which the images differ, gaps aside."""
    both = updates.before, updates.after
    required, allowed = masks.of_images(images.differing(*both), images.known_in_both(*both))
    flags = ledger.named(updates.changed, plan.contract.names)
    known = valid(updates.changed) & paired
    return masks.disagrees(flags, known, required, allowed)


def _with_flags(flags: pa.ListArray, late: dict[str, Bools]) -> pa.ListArray:
    """Returns (array<string>) the flags, followed by those of `late` that are not yet among them."""
    early = ledger.named(flags, _EARLY)
    new = [
        condition & ~early[:, _EARLY.index(name)] if name in _EARLY else condition
        for name, condition in late.items()
    ]
    is_set = np.column_stack([early, *new])
    return named_where(is_set, [*_EARLY, *late], masks.any_set(is_set))
