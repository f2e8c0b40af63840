"""Decoded rows taken apart again: from columns of the ledger to images and changes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.kernels.arrow import Bools, Bytes, valid
from changeledger.kernels.cells import NOT_CAPTURED, UNAVAILABLE
from changeledger.kernels.changes import Changes
from changeledger.kernels.images import Image
from changeledger.kernels.lsn import WIDTH, Lsns
from changeledger.model import change
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
_STATES = {change.UNAVAILABLE: UNAVAILABLE, change.NOT_CAPTURED: NOT_CAPTURED}


def image(batch: pa.RecordBatch, side: str, contract: Contract) -> Image:
    """The image `before` or `after`, with its gaps."""
    struct = batch.column(side)
    return Image(
        valid(struct), struct.flatten(), _gaps(batch.column(f"{side}_unknown_columns"), contract.names)
    )


def _gaps(gaps: pa.MapArray, names: Sequence[str]) -> Bytes | None:
    if gaps.null_count == len(gaps):
        return None
    states = np.zeros((len(gaps), len(names)), np.uint8)
    entries = gaps.cast(pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())])))
    row = pc.list_parent_indices(entries).to_numpy()
    name, state = entries.flatten().flatten()
    codes = pa.array(list(_STATES.values()), pa.uint8()).take(
        pc.index_in(state, value_set=pa.array(list(_STATES)))
    )
    states[row, pc.index_in(name, value_set=pa.array(list(names))).to_numpy()] = codes.to_numpy()
    return states


def named(lists: pa.ListArray, names: Sequence[str]) -> Bools:
    """n x names: which names are in each list, whatever their case."""
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
    """The changes that the rows after updates have become; their flags are left out."""
    plain = {name: batch.column(name) for name in _PLAIN}
    return Changes(
        before=before,
        after=after,
        key=key,
        moved=moved,
        commit_lsn=_lsns(batch.column("commit_lsn")),
        change_lsn=_lsns(batch.column("change_lsn")),
        flags={},
        paired_source_position=paired_source_position,
        **plain,
    )


def _lsns(lsns: pa.BinaryArray) -> Lsns:
    known = valid(lsns)
    digits = np.zeros((len(lsns), WIDTH), np.uint8)
    data = b"".join(lsns.drop_null().to_pylist())
    digits[known] = np.frombuffer(data, np.uint8).reshape(-1, WIDTH)
    return Lsns(digits, known)
