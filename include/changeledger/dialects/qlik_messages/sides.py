"""Converts the images of events from rows of cells to typed columns, each cell known, NULL, or a gap.

A gap is a missing member, one that the mask of columns says is not in the message, or the filler of a delete
outside its key. SQL Server's log has no old value of a large object, so its null in `beforeData` does not
mean NULL. Neither does its null in `data` of an update, unless a mask says that the column is in the message.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from msgspec import UNSET

from changeledger.dialects.messages.json_numbers import is_inexact
from changeledger.dialects.qlik_messages.events import layout_of
from changeledger.kernels.arrow import Bools, Bytes, places, valid
from changeledger.kernels.cells import NOT_CAPTURED, UNAVAILABLE
from changeledger.kernels.images import Image
from changeledger.model.contract import Contract


class Side(NamedTuple):
    """One image of n events, and its states. Matrices are n x columns.

    * `is_null`: no value is read, whatever the reason.
    * `unfit`: the value is not one of the type.
    * `inexact`: a decimal in the image, as a JSON number, has more digits than a double keeps.
    """

    image: Image
    states: Bytes
    is_null: Bools
    unfit: Bools
    inexact: Bools


def side(images: Sequence[Any], writer_schema: Contract, filler: Bools | None = None) -> Side:
    """Converts images (`ImageLayout.row`), which are None for events that do not have the image.

    `filler` marks the deletes, whose cells outside the key are ignored.
    """
    rows, size = layout_of(writer_schema), len(images)
    part = [image for image in images if image is not None]
    is_present = np.fromiter((image is not None for image in images), np.bool_, size)
    at = np.flatnonzero(is_present)
    where = None if len(at) == size else places(at, size)
    shape = (size, len(rows.cells))
    states, is_null, unfit = np.zeros(shape, np.uint8), np.ones(shape, np.bool_), np.zeros(shape, np.bool_)
    inexact, cells = np.zeros(size, np.bool_), []
    for number, (field, cell) in enumerate(zip(rows.fields.values(), rows.cells, strict=True)):
        values = list(map(attrgetter(field), part))
        if filler is not None and rows.keys and number not in rows.keys:
            values = [None if skip else value for value, skip in zip(values, filler[at], strict=True)]
        if cell.is_raw:
            inexact[at[[row for row, value in enumerate(values) if is_inexact(value)]]] = True
            values = [v if v is None or v is UNSET or bytes(v) != b"null" else None for v in values]
        if UNSET in values:
            absent = np.fromiter((value is UNSET for value in values), np.bool_, len(values))
            states[at[absent], number] = NOT_CAPTURED
            values = [None if value is UNSET else value for value in values]
        column_cells = cell.convert(values)
        has_value = valid(column_cells.values)
        if column_cells.unfit is not None:
            unfit[at[column_cells.unfit], number] = True
            has_value |= column_cells.unfit
        is_null[at[has_value], number] = False
        cells.append(column_cells.values if where is None else column_cells.values.take(where))
    return Side(Image(is_present, cells, None), states, is_null, unfit, inexact)


def with_gaps(
    event_side: Side, absent: Bools, writer_schema: Contract, *, is_delete: Bools, is_silent: Bools | bool
) -> Side:
    """Adds the gaps to an image.

    `absent` marks the columns that, by the masks, are not in the messages. `is_silent` marks the cells in
    which a large object's null does not mean NULL. A null in a column that cannot be NULL never does.
    """
    rows = layout_of(writer_schema)
    states = np.where(absent & event_side.is_null, NOT_CAPTURED, event_side.states)
    large = np.array(writer_schema.large, np.bool_)
    never_null = np.array([not c.nullable and not c.key_position for c in writer_schema.columns], np.bool_)
    unsaid = (large & is_silent) | never_null
    states = np.where((states == 0) & unsaid & event_side.is_null, UNAVAILABLE, states)
    is_key = np.zeros(len(rows.cells), np.bool_)
    is_key[list(rows.keys)] = True
    # If no key is known, all nulls are filler.
    filler = ~is_key if rows.keys else event_side.is_null
    states = np.where(is_delete[:, None], np.where(filler, NOT_CAPTURED, 0), states)
    states = np.where(event_side.image.present[:, None], states, 0).astype(np.uint8)
    image = Image(event_side.image.present, event_side.image.cells, states if states.any() else None)
    return event_side._replace(image=image, states=states)
