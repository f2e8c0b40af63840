"""Compares the key that a message names beside its images (`pkkey`) with the key in its images.

`pkkey` repeats the row's key, as it is in the before or the after image of an update. If neither image has
that key, it is uncertain which row changed. Texts of one value may differ, so values are compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import UNSET

from changeledger.dialects.ces.events import Event, ImageLayout, Text, as_row
from changeledger.dialects.ces.sides import Side, side
from changeledger.dialects.plan import TablePlan
from changeledger.kernels import images
from changeledger.kernels.arrow import Bools, valid
from changeledger.kernels.cells import KNOWN


def doubtful(key: Mapping[str, Text], row: Any, rows: ImageLayout) -> Any:
    """Returns the key as a row (`ImageLayout.row`) if its texts differ from the image's, else None."""
    beside, _ = as_row(key, rows)
    texts = ((getattr(beside, field), getattr(row, field)) for field in rows.fields)
    is_same = all(UNSET in {text, in_row} or text == in_row for text, in_row in texts)
    return None if is_same else beside


def contradicted(events: Sequence[Event], before: Side, after: Side, plan: TablePlan) -> Bools:
    """Returns the events whose key beside the images is in none of them.

    A value that is not one of its column's type says nothing.
    """
    contradicts = np.zeros(len(events), np.bool_)
    if all(event.key_beside is None for event in events):
        return contradicts
    beside = side([event.key_beside for event in events], plan)
    contradicts |= beside.image.present
    is_key = [column.key_position > 0 for column in plan.writer_schema.columns]
    for image in (before, after):
        has_key = image.image.present & (image.states[:, is_key] == KNOWN).any(axis=1)
        contradicts &= ~has_key | _differs(beside, image)
    return contradicts


def _differs(beside: Side, image: Side) -> Bools:
    """Returns the rows in which a column that both sides have differs."""
    in_both = (beside.states == KNOWN) & (image.states == KNOWN) & ~beside.unfit & ~image.unfit
    differs = np.zeros(len(in_both), np.bool_)
    for at, (key_cells, cells) in enumerate(zip(beside.image.cells, image.image.cells, strict=True)):
        known = in_both[:, at] & valid(key_cells)
        if known.any():
            differs |= known & images.differs(key_cells, cells)
    return differs
