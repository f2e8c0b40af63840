"""Reads stand-ins, written in place of a NULL that SQL Server's log has for a large value (`large_values`).

For a column that cannot be NULL, the connector writes its DEFAULT, or without one an empty text or no bytes
(`convertValue` in Debezium's `JdbcValueConverters`). For a column that can, a converter writes the DEFAULT
unless it is told to leave NULLs alone. Both are read as the NULL that they stand for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from changeledger.dialects.debezium.fields import Field
from changeledger.dialects.debezium.plan import TablePlan
from changeledger.dialects.debezium.values import cell_of
from changeledger.kernels.arrow import Bools, flags_of, valid
from changeledger.kernels.images import Image
from changeledger.model.contract import Column


class _StandIn(NamedTuple):
    """The stand-in of one large column. `at`: the column's number."""

    at: int
    value: Any
    # Whether deletes may lack the column's value.
    is_lob: bool


def as_nulls(
    before: Image, after: Image, is_update: Bools, is_delete: Bools, plan: TablePlan
) -> tuple[Image, Image]:
    """Returns both images with possible stand-ins replaced by NULL.

    `is_update`, `is_delete`: the changes from a log that leaves large values out. A value after a different
    old value is no stand-in: if the log has the old value, it also has the new one.
    """
    if not (is_update | is_delete).any():
        return before, after
    olds, news = list(before.cells), list(after.cells)
    for at, value, is_lob in _stand_ins(plan):
        old = _is(olds[at], value)
        had_value = valid(olds[at]) & before.present & ~old
        new = _is(news[at], value) & is_update & ~had_value
        old &= is_update | is_delete if is_lob else is_update
        olds[at], news[at] = _emptied(olds[at], old), _emptied(news[at], new)
    return replace(before, cells=olds), replace(after, cells=news)


def _is(cells: pa.Array, value: Any) -> Bools:
    return flags_of(pc.equal(cells, pa.scalar(value, cells.type)))


def _emptied(cells: pa.Array, rows: Bools) -> pa.Array:
    return pc.if_else(pa.array(rows), pa.scalar(None, cells.type), cells) if rows.any() else cells


@lru_cache(maxsize=64)
def _stand_ins(plan: TablePlan) -> Sequence[_StandIn]:
    stand_ins = []
    for at, (column, field) in enumerate(plan.written_columns):
        value = _stand_in(column, field, plan) if column.is_large and not column.key_position else None
        if value is not None:
            stand_ins.append(_StandIn(at, value, column.is_lob))
    return stand_ins


def _stand_in(column: Column, field: Field | None, plan: TablePlan) -> Any:
    """Returns the value written in place of NULL in this column, or None if nobody says which."""
    without_block = None if column.nullable else ""
    text = without_block if field is None else field.stand_in
    return None if text is None else cell_of(column, plan.source, field).read(text)
