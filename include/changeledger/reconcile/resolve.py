"""A window's ledger rows before they are written: without repetitions, updates of a key as one row each.

What must be in one bucket: the rows of one position, `(commit_lsn, change_lsn)`, and where a row has no
change LSN those of one `change_id`; of the window and of the published ledger alike. A repetition stands
where the change stood, and so do the two halves of an update of a key, of which one may be published already:
a window's end can part them.
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
    """What the window's rows become. All tables have the columns of `change`."""

    # Rows of the ledger, to be appended once.
    changes: pa.Table
    # Dispositions of the records that repeat a change.
    duplicates: pa.Table
    # Published ledger rows whose place joined updates take: they go, and their keys are built again.
    replaced: pa.Table


def resolve(new: pa.Table, near: pa.Table, contract: Contract, window_id: str) -> Resolved:
    """`new`: the window's changes; `near`: the published ones at their positions, or more of them."""
    schema = ledger_schema(contract)
    new, near = new.cast(schema), near.cast(schema)
    # What published rows say, deletes that were joined among them.
    known = [column(near, name).drop_null() for name in ("change_id", "paired_change_id")]
    is_kept = ~duplicates.repeated(new, pa.concat_arrays(known))
    again = new.take(pa.array(np.flatnonzero(~is_kept)))
    repeats = duplicates.dispositions(again, contract.table, window_id)
    # The rows of the window, and after them the published ones.
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
    """Some rows, counted from the first one of `new` to the last one of `near`, in the order asked for."""
    is_near = rows >= len(new)
    of_new, of_near = rows[~is_near], rows[is_near] - len(new)
    parts = [part.select(names).take(pa.array(at)) for part, at in ((new, of_new), (near, of_near))]
    places = np.empty(len(rows), np.int64)
    places[~is_near], places[is_near] = np.arange(len(of_new)), len(of_new) + np.arange(len(of_near))
    return parts[0] if not len(of_near) else pa.concat_tables(parts).take(pa.array(places))
