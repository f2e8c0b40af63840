"""Converts columns of the ledger back to images and changes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.kernels import images, lsn
from changeledger.kernels.arrow import Bools, valid
from changeledger.kernels.changes import Changes
from changeledger.kernels.images import Image
from changeledger.model.contract import Contract

_PLAIN = (
    "operation",
    "changed",
    "mask",
    "event_serial_no",
    "sort_key",
    "committed_at",
    "transaction_id",
    "source_position",
)


def image(batch: pa.RecordBatch, side: str, contract: Contract) -> Image:
    """Returns the image `before` or `after`, with its gaps."""
    struct = batch.column(side)
    states = images.states(batch.column(f"{side}_unknown_columns"), contract.names)
    return Image(valid(struct), struct.flatten(), states)


def named(lists: pa.ListArray, names: Sequence[str]) -> Bools:
    """n x names: which names each list has, ignoring case."""
    is_named = np.zeros((len(lists), len(names)), np.bool_)
    row = pc.list_parent_indices(lists).to_numpy()
    folded = pa.array([name.lower() for name in names], pa.string())
    at = pc.index_in(pc.utf8_lower(lists.flatten()), value_set=folded)
    is_one = valid(at)
    is_named[row[is_one], at.drop_null().to_numpy()] = True
    return is_named


def changes(  # noqa: PLR0913, PLR0917 - the two rows of an update
    batch: pa.RecordBatch,
    before: Image,
    after: Image,
    key: Sequence[pa.Array],
    moved: Bools,
    paired_source_position: pa.StructArray,
) -> Changes:
    """Builds changes from ledger rows, with these images, keys and paired positions, and without flags."""
    plain = {name: batch.column(name) for name in _PLAIN}
    return Changes(
        before=before,
        after=after,
        key=key,
        moved=moved,
        commit_lsn=lsn.of_bytes(batch.column("commit_lsn")),
        change_lsn=lsn.of_bytes(batch.column("change_lsn")),
        flags={},
        paired_source_position=paired_source_position,
        **plain,
    )
