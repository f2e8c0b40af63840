"""What it does to keys that their table was emptied (ADR 0008)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.kernels.arrow import column, flags_of, taken
from changeledger.model import change
from changeledger.model.contract import Contract
from changeledger.reconcile.effects import CHANGED, SEED, Effects, of_truncate, together
from changeledger.reconcile.ordered import OrderedEffects, in_order


def with_truncates(effects: Effects, truncates: pa.Table, contract: Contract) -> Effects:
    """With what truncates, of which there are few, do to the keys that were there before them."""
    if not len(truncates):
        return effects
    ordered = in_order(effects)
    of_rows = ordered.only(np.isin(effects.origin, (CHANGED, SEED))[ordered.at])
    firsts = of_rows.at[of_rows.is_first]
    begun = taken(column(effects.rows, "sort_key"), firsts)
    parts = [effects]
    for row in range(len(truncates)):
        truncate = truncates.slice(row, 1)
        behind = firsts[flags_of(pc.less(begun, truncate.column("sort_key")[0]))]
        if len(behind):
            parts.append(of_truncate(truncate, [taken(cells, behind) for cells in effects.key], contract))
    return together(parts)


def without_vain(ordered: OrderedEffects) -> OrderedEffects:
    """Without truncates that have found no row of their key."""
    is_truncate = ordered.effects.is_a(change.TRUNCATE)[ordered.at]
    return ordered.only(~(is_truncate & ordered.before(ordered.is_deleted)))
