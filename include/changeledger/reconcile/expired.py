"""Records that have waited for too long."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.model import change


def expired(left: pa.RecordBatch, late: Collection[tuple[str, int, int]]) -> pa.RecordBatch:
    """The rows (`ledger_kernels.LEFT_COLUMNS`): pending ones that are `late` (topic, partition and offset)
    are quarantined with the reason for which they waited."""
    disposition = left.column("disposition")
    is_expired = np.zeros(left.num_rows, np.bool_)
    waits = np.flatnonzero(pc.equal(disposition, change.PENDING).to_numpy(zero_copy_only=False))
    places = zip(*(left.column("source_position").field(n).to_pylist() for n in range(3)), strict=True)
    is_late = [place in late for place in places]
    is_expired[waits] = np.array(is_late, np.bool_)[waits]
    column = pc.if_else(pa.array(is_expired), change.QUARANTINED, disposition)
    return left.set_column(
        left.schema.get_field_index("disposition"), left.schema.field("disposition"), column
    )
