"""What the masks say of changes: which columns changed, and where masks and images contradict each other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from changeledger.dialects.qlik_messages.events import DELETE, INSERT, UPDATE
from changeledger.dialects.qlik_messages.masks import Masks
from changeledger.dialects.qlik_messages.sides import Side, absent_columns
from changeledger.kernels import images
from changeledger.kernels import masks as kernel_masks
from changeledger.kernels.arrow import Bools, named_where
from changeledger.kernels.cells import KNOWN
from changeledger.kernels.images import Image
from changeledger.model.contract import Contract


def columns_of_key(writer_schema: Contract) -> list[int]:
    """The numbers of the columns of the key."""
    return [at for at, column in enumerate(writer_schema.columns) if column.key_position]


def _large(writer_schema: Contract) -> Bools:
    return np.array([column.sql_type.is_large for column in writer_schema.columns], np.bool_)


def changed(
    before: Image, after: Image, is_update: Bools, mask: Masks, writer_schema: Contract
) -> pa.ListArray:
    """The mask's columns, and the large objects that are seen to differ; without a mask all that differ."""
    found = _differing(before, after, is_update)
    by_mask = mask.columns | (found & _large(writer_schema))
    found = np.where(mask.known[:, None], by_mask, found)
    known = is_update & (mask.known | before.present)
    return named_where(found & known[:, None], writer_schema.names, known)


def _differing(before: Image, after: Image, is_update: Bools) -> Bools:
    """n x columns: the cells of updates that are known in both images, and differ."""
    found = np.zeros((len(is_update), len(before.cells)), np.bool_)
    for at, (old, new) in enumerate(zip(before.cells, after.cells, strict=True)):
        found[:, at] = images.differs(old, new)
    both = is_update & before.present & after.present
    return found & both[:, None] & _known(before, after)


def _known(before: Image, after: Image) -> Bools:
    """n x columns: the cells that are known in both images."""
    found = np.ones((len(before.present), len(before.cells)), np.bool_)
    for states in (before.states, after.states):
        if states is not None:
            found &= states == KNOWN
    return found


def mask_disagrees(  # noqa: PLR0913, PLR0917 - both images and both masks
    before: Side, after: Side, operations: Sequence[str], mask: Masks, columns: Masks, writer_schema: Contract
) -> Bools:
    """An insert sets the bits of its values, a delete those of the key, an update those of the columns that
    differ between its images; no mask has bits of no column.

    A value whose bit says that it is not in the message is believed, but the masks are not.
    """
    is_insert, is_update, is_delete = (
        np.array([one == name for one in operations], np.bool_) for name in (INSERT, UPDATE, DELETE)
    )
    is_insert, is_delete = is_insert[:, None], is_delete[:, None]
    key = np.zeros(len(writer_schema.columns), np.bool_)
    key[columns_of_key(writer_schema)] = True
    # Large objects have no bits, and computed columns may have any.
    small = ~_large(writer_schema)
    stated = np.array([not column.computed for column in writer_schema.columns], np.bool_)
    both = is_update & before.image.present & after.image.present
    compared = _known(before.image, after.image) & stated & both[:, None]
    required, allowed = kernel_masks.of_images(_differing(before.image, after.image, is_update), compared)
    inserted = is_insert & ~after.is_null
    # Where no key is known, nothing contradicts the mask of a delete.
    found = kernel_masks.disagrees(
        mask.columns,
        mask.known,
        ((required | inserted) & small) | (is_delete & key),
        allowed & (~is_delete | key | (not key.any())),
    )
    has_value = ~after.is_null | ~before.is_null
    there: Bools = ~is_delete[:, 0] & (absent_columns(columns) & has_value).any(axis=1)
    return found | (mask.known & mask.beyond) | there
