"""Prepares a window's ledger rows for writing: drops repetitions, and joins each update of a key to one row.

A bucket must have all rows of a position, `(commit_lsn, change_lsn)`, and for rows without a change LSN all
rows of a `change_id`, from both the window and the published ledger. A repetition has the position of the
change. So do the two halves of an update of a key, one of which may be published already: a window's end can
separate them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from changeledger.kernels.arrow import Bools, Indices, column, equal, ledger_schema
from changeledger.model import change
from changeledger.model.contract import Contract
from changeledger.reconcile import duplicates, pairing


class Resolved(NamedTuple):
    """What the window's rows become. The tables have the columns of `change`."""

    # Ledger rows to append.
    changes: pa.Table
    # Dispositions of the records that repeat a change.
    duplicates: pa.Table
    # Published ledger rows that joined updates replace. They are removed, and their keys are rebuilt.
    replaced: pa.Table


def resolve(new: pa.Table, near: pa.Table, contract: Contract, window_id: str) -> Resolved:
    """Resolves `new`, the window's changes. `near`: at least the published changes at their positions."""
    schema = ledger_schema(contract)
    new, near = new.cast(schema), near.cast(schema)
    is_repeated, ids = duplicates.repeated(new, near, contract)
    is_kept, again = ~is_repeated, pa.array(np.flatnonzero(is_repeated))
    repeats = duplicates.dispositions(new.take(again), ids.take(again), contract.table, window_id)
    # Rows are numbered from the window's first to the last published one.
    candidates = np.flatnonzero(np.concatenate((is_kept & _is_half(new), _is_half(near))))
    halves = pairing.halves_of_key_updates(_taken(new, near, candidates, pairing.PLACED))
    deleted, inserted = (candidates[half] for half in halves)
    gone = np.concatenate((deleted, inserted))
    is_kept[gone[gone < len(new)]] = False
    changes = new if is_kept.all() else new.filter(pa.array(is_kept))
    if len(gone):
        old, fresh = (_taken(new, near, half, schema.names) for half in (deleted, inserted))
        changes = pa.concat_tables([changes, pairing.key_updates(old, fresh, contract, window_id)])
    replaced = np.sort(gone[gone >= len(new)]) - len(new)
    return Resolved(changes, repeats, near.take(pa.array(replaced)))


def _is_half(rows: pa.Table) -> Bools:
    operation = column(rows, "operation")
    return equal(operation, change.DELETE) | equal(operation, change.INSERT)


def _taken(new: pa.Table, near: pa.Table, rows: Indices, names: Sequence[str]) -> pa.Table:
    """Takes rows in the given order, numbered from the first of `new` to the last of `near`."""
    is_near = rows >= len(new)
    of_new, of_near = rows[~is_near], rows[is_near] - len(new)
    parts = [part.select(names).take(pa.array(at)) for part, at in ((new, of_new), (near, of_near))]
    places = np.empty(len(rows), np.int64)
    places[~is_near], places[is_near] = np.arange(len(of_new)), len(of_new) + np.arange(len(of_near))
    return parts[0] if not len(of_near) else pa.concat_tables(parts).take(pa.array(places))
