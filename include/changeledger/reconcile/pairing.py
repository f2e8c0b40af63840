"""Joins the two halves of an update of a key: a delete and an insert at one position are one update."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.kernels import images, order
from changeledger.kernels.arrow import (
    Bools,
    Indices,
    by_name,
    column,
    equal,
    holding,
    named_where,
    table_of,
    valid,
)
from changeledger.kernels.cells import KNOWN
from changeledger.kernels.hashed import hash_of
from changeledger.kernels.images import differs
from changeledger.model import change
from changeledger.model.contract import Contract

PLACED: Final = ("operation", "commit_lsn", "change_lsn", "sort_key")


def halves_of_key_updates(rows: pa.Table) -> tuple[Indices, Indices]:
    """Returns deletes and inserts of which each pair is one update of a key.

    `rows`: deletes and inserts, with the columns `PLACED`.

    SQL Server logs such an update (and an update that mentions the key) as delete and insert at one position:
    the same commit and change LSN, the delete first. If more than one delete can belong to an insert, or more
    than one insert to a delete, all rows of the position stay as they are.
    """
    is_insert = equal(column(rows, "operation"), change.INSERT)
    commit, at = column(rows, "commit_lsn"), column(rows, "change_lsn")
    candidates = np.flatnonzero(valid(commit) & valid(at))
    candidates = candidates[order.repeated(hash_of([lsn.take(pa.array(candidates)) for lsn in (commit, at)]))]
    of_place = order.codes([lsn.take(pa.array(candidates)) for lsn in (commit, at)], len(candidates))
    return _in_pairs(
        candidates, of_place, is_insert[candidates], column(rows, "sort_key").take(pa.array(candidates))
    )


def _in_pairs(
    rows: Indices, of_place: order.Ranks, is_insert: Bools, sort_key: pa.BinaryArray
) -> tuple[Indices, Indices]:
    """Returns the delete and the insert of each place that has exactly one possible pair."""
    in_order = order.by([of_place, *order.words(sort_key), ~is_insert], len(rows))
    rows, is_insert = rows[in_order], is_insert[in_order]
    start = order.begun_at(order.begins([of_place[in_order]], len(rows)))
    # Deletes sort after an insert with the same sort key, so they do not count as before it.
    before = np.concatenate(([0], np.cumsum(~is_insert)))
    pairs = np.where(is_insert, before[:-1] - before[start], 0)
    of_start = np.bincount(start, weights=pairs)
    inserts = np.flatnonzero((pairs == 1) & (of_start[start] == 1))
    deletes = np.flatnonzero(~is_insert)[before[start[inserts]]]
    return rows[deletes], rows[inserts]


def key_updates(old: pa.Table, new: pa.Table, contract: Contract, window_id: str) -> pa.Table:
    """Returns one ledger row per pair: an update at the position of the insert, with the old key.

    `old` has the deletes and `new` the inserts, row by row.
    """
    old_key, key = column(old, "key"), column(new, "key")
    moved = np.asarray(_differ(old_key, key).any(axis=1))
    before, after = column(old, "before"), column(new, "after")
    differing = _differ(before, after)
    gaps = (column(old, "before_unknown_columns"), column(new, "after_unknown_columns"))
    sides = [images.states(of_side, contract.names) for of_side in gaps]
    for states in sides:
        differing &= True if states is None else states == KNOWN
    is_hidden = images.may_hide(sides[0], sides[1], len(key)) & ~differing.any(axis=1)
    columns = {
        **by_name(new),
        "operation": change.UPDATE,
        "window_id": window_id,
        "previous_key": pc.if_else(pa.array(moved), old_key, pa.scalar(None, key.type)),
        "before": before,
        "before_unknown_columns": column(old, "before_unknown_columns"),
        "paired_source_position": column(old, "source_position"),
        "paired_change_id": column(old, "change_id"),
        "changed": named_where(differing, contract.names, ~is_hidden),
        "flags": with_flag(column(new, "flags"), change.KEY_CHANGED, moved),
    }
    return table_of(columns, new.schema)


def _differ(old: pa.StructArray, new: pa.StructArray) -> Bools:
    """n x fields: which fields differ. The fields of a NULL struct are NULL."""
    sides = zip(old.flatten(), new.flatten(), strict=True)
    return np.column_stack([differs(a, b) for a, b in sides] or [np.zeros((len(old), 0), np.bool_)])


def with_flag(flags: pa.ListArray, flag: str, where: Bools) -> pa.ListArray:
    """Adds a flag to some rows, after the flags that they have."""
    rows, values = len(flags), flags.flatten()
    more = np.flatnonzero(where & ~holding(flags, flag))
    row = np.concatenate((pc.list_parent_indices(flags).to_numpy(), more))
    values = pa.concat_arrays([values, pa.repeat(pa.scalar(flag, pa.string()), len(more))])
    ends = np.cumsum(np.bincount(row, minlength=rows))
    return pa.ListArray.from_arrays(
        pa.array(np.concatenate(([0], ends)), pa.int32()),
        values.take(pa.array(np.argsort(row, kind="stable"))),
        mask=pa.array(~(valid(flags) | where)),
    )
