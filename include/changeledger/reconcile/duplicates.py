"""Finds changes that were delivered more than once."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.kernels import order
from changeledger.kernels.arrow import (
    Bools,
    column,
    flags_of,
    numbers,
    table_of,
    table_schema,
    valid,
)
from changeledger.kernels.hashed import hash_of
from changeledger.model import change
from changeledger.model.contract import Contract
from changeledger.reconcile import renumbered

DISPOSITIONS = table_schema(change.DISPOSITION_COLUMNS)


def repeated(new: pa.Table, near: pa.Table, contract: Contract) -> tuple[Bools, pa.StringArray]:
    """Returns which of the new ledger rows repeat a change, and for each row the id of its change.

    Of several deliveries in one window the first by source, partition and offset stays. `near`: at least the
    published changes at the positions of the new rows; deletes may be inside joined updates of a key.
    """
    ids = column(new, "change_id")
    known = pa.concat_arrays([column(near, name).drop_null() for name in ("change_id", "paired_change_id")])
    is_repeated = flags_of(pc.is_in(ids, value_set=known))
    several = order.repeated(hash_of([ids]))
    of_id = numbers(ids.take(pa.array(several)).dictionary_encode().indices)
    records = column(new, "source_position").take(pa.array(several))
    in_order = order.by([of_id, *order.of_delivery(records)], len(several))
    is_first = order.begins([of_id[in_order]], len(several))
    is_repeated[several[in_order[~is_first]]] = True
    stays = new if not is_repeated.any() else new.filter(pa.array(~is_repeated))
    others, firsts = renumbered.same_changes(stays, near, contract)
    if len(others):
        at = pc.index_in(ids, value_set=others)
        is_repeated |= valid(at)
        ids = pc.coalesce(firsts.take(at), ids)
    return is_repeated, ids


def dispositions(repeats: pa.Table, ids: pa.StringArray, table: str, window_id: str) -> pa.Table:
    """Returns `change.DISPOSITION_COLUMNS` for each record of the rows that repeat changes with these ids."""
    paired = column(repeats, "paired_source_position")
    has_pair = np.flatnonzero(valid(paired))
    commits = column(repeats, "commit_lsn")
    records = pa.concat_arrays([column(repeats, "source_position"), paired.take(pa.array(has_pair))])
    columns = {
        "window_id": window_id,
        "table": table,
        "disposition": change.DUPLICATE,
        "reason": change.DELIVERED_AGAIN,
        "source_position": records,
        "detail": pa.concat_arrays([ids, ids.take(pa.array(has_pair))]),
        "commit_lsn": pa.concat_arrays([commits, commits.take(pa.array(has_pair))]),
    }
    return table_of(columns, DISPOSITIONS)
