"""Rows of a full load that arrive after changes of their table.

A loaded row has no position. It counts as the state before every change, so it does not alter a published row
that has changed since. But a tool that loads a table again in mid-stream sends the current state, after the
changes.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from changeledger.kernels import order
from changeledger.kernels.arrow import Bools, column, equal, holding, numbers, valid
from changeledger.model.change import REPAIRED, SNAPSHOT

_FAR: Final = np.iinfo(np.int64).max


def behind_changes(changes: pa.Table, is_streamed: bool) -> Bools:
    """Returns which of a table's ledger rows belong to such a load.

    `is_streamed`: changes of the table are published already. Otherwise a row belongs to such a load if its
    partition has a change in front of it among `changes`.
    """
    is_change = ~equal(column(changes, "operation"), SNAPSHOT)
    is_loaded = (
        ~is_change & ~valid(column(changes, "commit_lsn")) & ~holding(column(changes, "flags"), REPAIRED)
    )
    if is_streamed or not is_loaded.any():
        return is_loaded
    source, partition, offset, _ = column(changes, "source_position").flatten()
    of_partition = order.codes([source, partition], len(changes))
    groups, of_group = np.unique(of_partition, return_inverse=True)
    at, is_placed = numbers(offset), valid(partition) & valid(offset)
    first = np.full(len(groups), _FAR)
    np.minimum.at(first, of_group[is_change & is_placed], at[is_change & is_placed])
    is_behind: Bools = is_loaded & is_placed & (at > first[of_group])
    return is_behind
