"""What it does to keys that their table was emptied (ADR 0008)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger import change
from changeledger.contract import Contract
from changeledger.kernels.arrow import Bools, column, flags_of, row_type, taken
from changeledger.kernels.reconcile.effects import CHANGED, SEED, Effects, of_truncate, together
from changeledger.kernels.reconcile.ordered import OrderedEffects, in_order


def with_truncates(found: Effects, truncates: pa.Table, contract: Contract) -> Effects:
    """With what truncates, of which there are few, do to the keys that were there before them."""
    if not len(truncates):
        return found
    ordered = in_order(found)
    of_rows = ordered.only(np.isin(found.origin, (CHANGED, SEED))[ordered.at])
    firsts = of_rows.at[of_rows.is_first]
    begun = taken(column(found.rows, "sort_key"), firsts)
    parts = [found]
    for row in range(len(truncates)):
        one = truncates.slice(row, 1)
        behind = firsts[flags_of(pc.less(begun, one.column("sort_key")[0]))]
        if len(behind):
            parts.append(of_truncate(one, [taken(cells, behind) for cells in found.key], contract))
    return together(parts)


def without_vain(found: OrderedEffects) -> OrderedEffects:
    """Without truncates that have found no row of their key."""
    is_truncate = found.effects.is_a(change.TRUNCATE)[found.at]
    return found.only(~(is_truncate & found.before(found.is_deleted)))


class Ended(NamedTuple):
    """Keys that a truncate ends."""

    keys: pa.StructArray
    # Is the interval that it ends the key's last one? Else the key's history is no continuation.
    is_open: Bools


def alive_at(intervals: pa.Table, truncates: pa.Table, contract: Contract) -> Ended:
    """The keys of published intervals in which a row was alive when the table was emptied."""
    begun, following = (column(intervals, name) for name in ("_sort_key", "_next_sort_key"))
    found = np.zeros(len(intervals), np.bool_)
    for position in column(truncates, "sort_key"):
        ends_later = flags_of(pc.fill_null(pc.greater(following, position), fill_value=True))
        found |= flags_of(pc.less(begun, position)) & ends_later
    found &= ~flags_of(column(intervals, "_is_deleted"))
    ended = intervals.filter(pa.array(found))
    keys = [column(ended, c.name) for c in contract.key]
    return Ended(
        pa.StructArray.from_arrays(keys, fields=list(row_type(contract.key))),
        ~column(ended, "_valid_to").is_valid().to_numpy(zero_copy_only=False),
    )
