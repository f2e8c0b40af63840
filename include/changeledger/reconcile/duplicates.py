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

DISPOSITIONS = table_schema(change.DISPOSITION_COLUMNS)


def repeated(new: pa.Table, known: pa.StringArray) -> Bools:
    """Returns which of the new ledger rows repeat a change.

    Of several deliveries in one window the first by source, partition and offset stays. `known`: the ids of
    changes that the ledger already has, including the deletes inside joined updates of a key.
    """
    ids = column(new, "change_id")
    is_repeated = flags_of(pc.is_in(ids, value_set=known)) if len(known) else np.zeros(len(ids), np.bool_)
    several = order.repeated(hash_of([ids]))
    if len(several):
        of_id = numbers(ids.take(pa.array(several)).dictionary_encode().indices)
        source, partition, offset, _ = column(new, "source_position").take(pa.array(several)).flatten()
        sources = order.words(source.cast(pa.binary()))
        ranks = [of_id, *sources, *order.nulls_first(partition), *order.nulls_first(offset)]
        in_order = order.by(ranks, len(several))
        is_first = order.begins([of_id[in_order]], len(several))
        is_repeated[several[in_order[~is_first]]] = True
    return is_repeated


def dispositions(repeats: pa.Table, table: str, window_id: str) -> pa.Table:
    """Returns `change.DISPOSITION_COLUMNS` for each record of the repeated changes."""
    paired = column(repeats, "paired_source_position")
    has_pair = np.flatnonzero(valid(paired))
    ids, commits = (column(repeats, name) for name in ("change_id", "commit_lsn"))
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
