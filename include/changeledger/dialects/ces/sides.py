"""The images of events: rows of texts become typed cells, each known, NULL, or a gap."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET

from changeledger.config.sources import CesSource
from changeledger.dialects.ces.events import layout_of
from changeledger.dialects.ces.values import Cell, cell_of
from changeledger.dialects.plan import TablePlan
from changeledger.kernels.arrow import Bools, Bytes, arrow_type, places
from changeledger.kernels.cells import NOT_CAPTURED, UNAVAILABLE
from changeledger.kernels.images import Image
from changeledger.model.contract import Contract


class Side(NamedTuple):
    """One image of n events, with all states in its image. `unfit`: n x columns, no value of the type."""

    image: Image
    states: Bytes
    unfit: Bools
    # Has the image a value that the producer has cut?
    is_cut: Bools


class Column(NamedTuple):
    cell: Cell
    text: attrgetter[Any]
    kind: pa.DataType


@lru_cache(maxsize=64)
def _columns(plan: TablePlan) -> Sequence[Column]:
    source, fields = plan.feed.source, layout_of(plan.writer_schema).fields
    assert isinstance(source, CesSource), "config binds a dialect to its source"
    return [
        Column(cell_of(column, source.binary_encoding), attrgetter(field), arrow_type(column.spark_type))
        for column, field in zip(plan.writer_schema.columns, fields, strict=True)
    ]


def side(rows: Sequence[Any], plan: TablePlan) -> Side:
    """`rows`: as `events.ImageLayout.row`, None if an event does not have the image."""
    columns, size = _columns(plan), len(rows)
    part = [row for row in rows if row is not None]
    present = np.fromiter((row is not None for row in rows), np.bool_, size)
    at = np.flatnonzero(present)
    where = None if len(at) == size else places(at, size)
    states, unfit = np.zeros((size, len(columns)), np.uint8), np.zeros((size, len(columns)), np.bool_)
    is_cut, cells = np.zeros(size, np.bool_), []
    for number, column in enumerate(columns):
        texts, absent = _texts(list(map(column.text, part)))
        if absent is not None:
            states[at[absent], number] = NOT_CAPTURED
        cut = column.cell.cuts and column.cell.cuts(texts)
        if cut is not None:
            states[at[cut], number] = UNAVAILABLE
            is_cut[at[cut]] = True
            texts = pc.if_else(pa.array(cut), pa.scalar(None, pa.string()), texts)
        converted = column.cell.convert(texts)
        if converted.unfit is not None:
            unfit[at[converted.unfit], number] = True
        cells.append(converted.values if where is None else converted.values.take(where))
    return Side(Image(present, cells, states if states.any() else None), states, unfit, is_cut)


def _texts(values: list[Any]) -> tuple[pa.StringArray, Bools | None]:
    """The texts of a column, and which were not sent; None if all were."""
    try:
        return pa.array(values, pa.string()), None
    except (pa.ArrowException, TypeError):
        absent = np.fromiter((value is UNSET for value in values), np.bool_, len(values))
        return pa.array([None if value is UNSET else value for value in values], pa.string()), absent


def with_unsent(before: Side, after: Side, has_old: Bools, writer_schema: Contract) -> Side:
    """The image before: a large value that only this image lacks was there, and not sent."""
    large = np.array(writer_schema.large, np.bool_)
    in_after = ~after.image.present[:, None] | (after.states != NOT_CAPTURED)
    unsent = (before.states == NOT_CAPTURED) & large & in_after
    unsent &= (has_old & before.image.present)[:, None]
    if not unsent.any():
        return before
    states: npt.NDArray[np.uint8] = np.where(unsent, UNAVAILABLE, before.states).astype(np.uint8)
    return before._replace(image=Image(before.image.present, before.image.cells, states), states=states)
