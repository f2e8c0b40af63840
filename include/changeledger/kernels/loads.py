"""Ledger rows that arrive after changes of their table, but sort before them.

- A row of a full load has no position. It counts as the state before every change, so it does not alter a
  published row that has changed since. But a tool that loads a table again in mid-stream sends the current
  state, after the changes.
- A change without an LSN sorts before all that have one. But a source that stops writing LSNs, for example
  because the task reads another database, sends its new changes without.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.kernels import order
from changeledger.kernels.arrow import Bools, column, equal, flags_of, holding, numbers, valid
from changeledger.kernels.log_end import APART
from changeledger.model.change import CLOCK_SUSPECT, REPAIRED, SNAPSHOT

_FAR: Final = np.iinfo(np.int64).max


def behind_changes(changes: pa.Table, is_streamed: bool) -> Bools:
    """Returns which of a table's ledger rows are loaded after its changes.

    `is_streamed`: changes of the table are published already. Otherwise a row counts as loaded after them if
    its partition has a change in front of it among `changes`.
    """
    is_change = ~equal(column(changes, "operation"), SNAPSHOT)
    is_loaded = (
        ~is_change & ~valid(column(changes, "commit_lsn")) & ~holding(column(changes, "flags"), REPAIRED)
    )
    return is_loaded if is_streamed else _behind(changes, is_loaded, is_change)


def have_lost_lsns(changes: pa.Table, had_lsns: bool) -> Bools:
    """Returns which of a table's changes lack an LSN and come after changes with one.

    `had_lsns`: changes with an LSN are published already. Otherwise a change comes after them if its
    partition has such a change in front of it among `changes`, or if any was committed before it.
    """
    has_lsn = have_lsns(changes)
    lacks_lsn = _are_changes(changes) & ~has_lsn
    if had_lsns or not has_lsn.any():
        return lacks_lsn & had_lsns
    return _behind(changes, lacks_lsn, has_lsn) | (lacks_lsn & _committed_after(changes, has_lsn))


def have_lsns(changes: pa.Table) -> Bools:
    """Returns which ledger rows are changes with an LSN."""
    return _are_changes(changes) & valid(column(changes, "commit_lsn"))


def _are_changes(changes: pa.Table) -> Bools:
    is_row = equal(column(changes, "operation"), SNAPSHOT)
    are_changes: Bools = ~is_row & ~holding(column(changes, "flags"), REPAIRED)
    return are_changes


def _behind(changes: pa.Table, are_late: Bools, are_first: Bools) -> Bools:
    """Returns which rows of `are_late` have one of `are_first` in front of them in their partition."""
    if not are_late.any():
        return are_late
    source, partition, offset, _ = column(changes, "source_position").flatten()
    of_partition = order.codes([source, partition], len(changes))
    groups, of_group = np.unique(of_partition, return_inverse=True)
    at, is_placed = numbers(offset), valid(partition) & valid(offset)
    first = np.full(len(groups), _FAR)
    np.minimum.at(first, of_group[are_first & is_placed], at[are_first & is_placed])
    is_behind: Bools = are_late & is_placed & (at > first[of_group])
    return is_behind


def _committed_after(changes: pa.Table, are_first: Bools) -> Bools:
    """Returns which rows are committed after any of `are_first`, whatever their topics."""
    committed_at = column(changes, "committed_at")
    is_timed = ~holding(column(changes, "flags"), CLOCK_SUSPECT)
    first = pc.min(committed_at.filter(pa.array(are_first & is_timed)))
    if not first.is_valid:
        return np.zeros(len(changes), np.bool_)
    return is_timed & flags_of(pc.greater(committed_at, pc.add(first, pa.scalar(APART))))
