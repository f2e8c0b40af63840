"""Finds by the masks which columns changed, and where masks and images contradict each other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from changeledger.dialects.qlik_messages.events import DELETE, INSERT, UPDATE
from changeledger.dialects.qlik_messages.masks import Masks
from changeledger.dialects.qlik_messages.sides import Side
from changeledger.kernels import images
from changeledger.kernels import masks as kernel_masks
from changeledger.kernels.arrow import Bools, named_where
from changeledger.kernels.cells import KNOWN, UNAVAILABLE
from changeledger.model.contract import Contract


def are_of_key(writer_schema: Contract) -> Bools:
    return np.array([column.key_position > 0 for column in writer_schema.columns], np.bool_)


def _large(writer_schema: Contract) -> Bools:
    return np.array(writer_schema.large, np.bool_)


def changed(
    before: Side, after: Side, is_update: Bools, mask: Masks, writer_schema: Contract
) -> pa.ListArray:
    """Returns the columns in the mask and the large objects that differ; without a mask, all that differ.

    They are unknown if there are none and a large object's old value is unknown: its bit is never set.
    """
    large, has_before = _large(writer_schema), before.image.present
    is_changed = images.differing(before.image, after.image)
    by_mask = mask.columns | (is_changed & large)
    is_changed = np.where(mask.known[:, None], by_mask, is_changed)
    old_states = np.where(has_before[:, None], before.states, np.where(large, UNAVAILABLE, KNOWN))
    is_hidden = images.may_hide(old_states, after.states, len(is_update))
    known = is_update & (mask.known | has_before) & (is_changed.any(axis=1) | ~is_hidden)
    return named_where(is_changed, writer_schema.names, known)


def mask_disagrees(  # noqa: PLR0913, PLR0917 - both images and both masks
    before: Side, after: Side, operations: Sequence[str], mask: Masks, columns: Masks, writer_schema: Contract
) -> Bools:
    """Returns the events whose masks contradict their images or each other.

    * An insert sets the bits of its values, a delete those of the key, an update those of the columns that
      differ between its images. No mask has bits beyond the columns.
    * If a bit says that a column is not in the message, but it is, its value is believed, not the masks.
    * One mask of an update must not say that a column changed, and the other that it is not in the message:
      its last value would be kept, which is not the one that it has now.
    """
    is_insert, is_update, is_delete = (
        np.array([operation == name for operation in operations], np.bool_)
        for name in (INSERT, UPDATE, DELETE)
    )
    # Large objects have no bits, and computed columns may have any.
    small = ~_large(writer_schema)
    stated = np.array([not column.computed for column in writer_schema.columns], np.bool_)
    sides = before.image, after.image
    # Every update has an image after it.
    has_both = is_update & before.image.present
    compared = images.known_in_both(*sides) & stated & has_both[:, None]
    differing, allowed = kernel_masks.of_images(images.differing(*sides), compared)
    inserted = is_insert[:, None] & ~after.is_null
    of_key, allowed_of_key = kernel_masks.of_key(is_delete, are_of_key(writer_schema))
    required = ((differing | inserted) & small & stated) | of_key
    disagreeing = kernel_masks.disagrees(mask.columns, mask.known, required, allowed & allowed_of_key)
    has_value = ~after.is_null | ~before.is_null
    changed_unsent = is_update[:, None] & mask.columns
    is_absent: Bools = ~is_delete & (columns.absent & (has_value | changed_unsent)).any(axis=1)
    return disagreeing | mask.beyond | columns.beyond | is_absent
