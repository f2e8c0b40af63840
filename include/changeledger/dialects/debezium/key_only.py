"""Completes before images that hold less than the row: only its key, a part of the key, or nothing.

PostgreSQL's default replica identity sends only the key with a delete, and with an update only the key
columns that it changed; the connector writes NULL for the rest (debezium/debezium#1126, #4352). Other
connectors send an empty image (yugabyte/debezium-connector-yugabytedb#289). A key column that is NULL before
an update was not sent: no update moves its row away from a NULL key.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.dialects.debezium.plan import TablePlan
from changeledger.kernels import images
from changeledger.kernels.arrow import Bools, flags_of, valid
from changeledger.kernels.cells import KNOWN, UNAVAILABLE
from changeledger.kernels.images import Image


def known(before: Image, after: Image, is_update: Bools, connector: pa.StringArray, plan: TablePlan) -> Image:
    """Returns the before images, with unsent values filled in from the key or marked as unavailable."""
    columns = plan.writer_schema.columns
    keys = [at for at, column in enumerate(columns) if column.key_position]
    others = [at for at, column in enumerate(columns) if not column.key_position]
    before = _with_key(before, after, is_update, keys)
    return _gaps_beside_key(before, others, flags_of(pc.equal(connector, "postgresql")))


def _with_key(before: Image, after: Image, is_update: Bools, keys: list[int]) -> Image:
    """Drops images of updates without any value, and fills missing key columns from the after image."""
    lacks = is_update & before.present
    if not keys or not (lacks & ~images.has_value(before, keys).all(axis=1)).any():
        return before
    before = before.only(~lacks | images.has_value(before, range(len(before.cells))).any(axis=1))
    cells, states = list(before.cells), None if before.states is None else before.states.copy()
    for at in keys:
        is_filled = is_update & before.present & ~valid(cells[at])
        cells[at] = pc.if_else(pa.array(is_filled), after.cells[at], cells[at])
        if states is not None:
            states[is_filled, at] = KNOWN
    return replace(before, cells=cells, states=states)


def _gaps_beside_key(before: Image, others: list[int], changes: Bools) -> Image:
    """Marks all other columns as unavailable in images of `changes` that have no value beside the key."""
    if not others or not changes.any():
        return before
    empty = changes & before.present & ~images.has_value(before, others).any(axis=1)
    shape = len(empty), len(before.cells)
    states = np.zeros(shape, np.uint8) if before.states is None else before.states.copy()
    states[np.ix_(empty, np.array(others))] = UNAVAILABLE
    return Image(before.present, before.cells, states)
