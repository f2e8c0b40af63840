"""The images of many events: from the cells that msgspec gave to typed columns and the states of gaps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET

from changeledger.dialects.debezium.structs import Typed
from changeledger.dialects.debezium.values import UNUSUAL, Cell
from changeledger.kernels.arrow import Bools, Indices, flags_of, places
from changeledger.kernels.cells import KNOWN, NOT_CAPTURED, UNAVAILABLE, Cells, each
from changeledger.kernels.images import Image


def image(rows: Indices, columns: Sequence[Sequence[Any]], how: Typed, size: int) -> tuple[Image, Bools]:
    """One side of `size` events, and which of them have a cell that is not as usual.

    `rows`: the events that have the image; `columns`: the cells of those, as msgspec gave them.
    """
    unusual = np.zeros(size, np.bool_)
    present = np.zeros(size, np.bool_)
    present[rows] = True
    if not len(rows):
        return Image(present, [pa.nulls(size, kind) for kind in how.kinds], None), unusual
    states = np.zeros((len(rows), len(how.cells)), np.uint8)
    where = None if len(rows) == size else places(rows, size)
    cells = []
    for at, (cell, values) in enumerate(zip(how.cells, columns, strict=True)):
        converted, held = _cells(values, cell)
        if held is not None:
            states[:, at] = held
        if converted.unfit is not None:
            unusual[rows[converted.unfit]] = True
        cells.append(converted.values if where is None else converted.values.take(where))
    return Image(present, cells, _spread(states, rows, size)), unusual


def _spread(states: Any, rows: Any, size: int) -> Any:
    if not states.any():
        return None
    spread_states = np.zeros((size, states.shape[1]), np.uint8)
    spread_states[rows] = states
    return spread_states


def _cells(values: Sequence[Any], cell: Cell) -> tuple[Cells, Any]:
    """The cells of a column, and their states; None if all are known."""
    try:
        return _converted(values, cell)
    except UNUSUAL:
        absent = np.fromiter((value is UNSET for value in values), np.bool_, len(values))
        present = [None if value is UNSET else value for value in values]
        try:
            converted, held = _converted(present, cell)
        except UNUSUAL:
            # Times in text, mostly; a placeholder among them is for `single` to find.
            kind = cell.convert([]).values.type
            converted, held = each(present, lambda value: cell.read(str(value)), kind), None
        states = np.zeros(len(values), np.uint8) if held is None else held
        states[absent] = NOT_CAPTURED
        return converted, states


def _converted(values: Sequence[Any], cell: Cell) -> tuple[Cells, Any]:
    if not cell.is_text:
        return cell.convert(values), None
    texts = pa.array(values, pa.string())
    is_placeholder = pc.is_in(texts, pa.array(cell.placeholders))
    if not pc.any(is_placeholder).as_py():
        return cell.convert(texts), None
    held = np.where(flags_of(is_placeholder), UNAVAILABLE, KNOWN).astype(np.uint8)
    return cell.convert(pc.if_else(is_placeholder, pa.scalar(None, pa.string()), texts)), held
