"""Marks large values that SQL Server's log leaves out, and that arrive as NULL or as a stand-in for it.

Operation 3 (before an update) has NULL for a large value that the update did not change. For `text`, `ntext`
and `image`, operations 3 and 1 (delete) always have NULL (Microsoft's page on `cdc.<capture_instance>_CT`,
large object data types).
A connector writes that NULL into both images: before 3.6 always (debezium/debezium#7452), since then for the
types and lengths that it does not take for large (#7881, #8078). Without a change mask such a NULL cannot be
told from a real one, so the cell is marked as unavailable (`kernels.images`).

Stand-ins are read as the NULL that they stand for. For a column that cannot be NULL, the connector writes its
DEFAULT, or without one an empty text or no bytes (`convertValue` in Debezium's `JdbcValueConverters`). For a
column that can, a converter writes the DEFAULT unless it is told to leave NULLs alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.dialects.debezium.fields import Field
from changeledger.dialects.debezium.plan import TablePlan
from changeledger.dialects.debezium.values import cell_of
from changeledger.kernels import images
from changeledger.kernels.arrow import Bools, flags_of, valid
from changeledger.kernels.cells import UNAVAILABLE
from changeledger.kernels.images import Image
from changeledger.model.contract import Column, Contract


def without_unsent(
    before: Image, after: Image, is_update: Bools, is_delete: Bools, plan: TablePlan
) -> tuple[Image, Image]:
    """Returns both images with NULLs and stand-ins that may stand for a value marked as unavailable.

    `is_update`, `is_delete`: the changes from a log that leaves large values out.

    * Before an update: every NULL of a large column.
    * After an update: a NULL of a large column without a value before, as the log has each value that an
      update set to NULL.
    * In a delete: a NULL of `text`, `ntext` or `image`, or of a column that may be one of these.
    """
    large = _large(plan.writer_schema)
    if not large or not (is_update | is_delete).any():
        return before, after
    before, after = _without_stand_ins(before, after, is_update, is_delete, plan)
    never_in_deletes = np.array([plan.writer_schema.columns[at].is_lob for at in large], np.bool_)
    had_value = _had_value(before, large)
    update, delete = is_update[:, None], is_delete[:, None]
    before = images.without_nulls(before, large, update | (delete & never_in_deletes))
    return before, images.without_nulls(after, large, update & ~had_value)


def misplaced(before: Image, after: Image, is_update: Bools, writer_schema: Contract) -> Bools:
    """Returns which changes have a placeholder for a value that SQL Server's log always has.

    That is a value of a column that is not large, or of a large one that had a value before the update: the
    log has the old value of a large column only if the update changed the column, and then also the new
    value, even NULL. Connector builds that read the change mask from the wrong end take that NULL for a value
    that was left out, in tables of more than eight columns (debezium/debezium#8064). The change is flagged;
    its value is not guessed.
    """
    large, is_misplaced = _large(writer_schema), np.zeros(len(is_update), np.bool_)
    small = [at for at, column in enumerate(writer_schema.columns) if not column.is_large]
    for image in (before, after):
        if image.states is not None:
            is_misplaced |= (image.states[:, small] == UNAVAILABLE).any(axis=1)
    if large and after.states is not None:
        is_gap = after.states[:, large] == UNAVAILABLE
        is_misplaced |= is_update & (_had_value(before, large) & is_gap).any(axis=1)
    return is_misplaced


def _had_value(before: Image, large: Sequence[int]) -> Bools:
    had_value: Bools = images.has_value(before, large) & before.present[:, None]
    return had_value


def _large(writer_schema: Contract) -> list[int]:
    return [at for at, c in enumerate(writer_schema.columns) if c.is_large and not c.key_position]


def _without_stand_ins(
    before: Image, after: Image, is_update: Bools, is_delete: Bools, plan: TablePlan
) -> tuple[Image, Image]:
    """Returns both images with possible stand-ins replaced by NULL.

    A value after a different old value is no stand-in: if the log has the old value, it also has the new one.
    """
    olds, news = list(before.cells), list(after.cells)
    for at, value, is_lob in _stand_ins(plan):
        old = _is(olds[at], value)
        had_value = valid(olds[at]) & ~old
        new = _is(news[at], value) & is_update & ~had_value
        old &= is_update | is_delete if is_lob else is_update
        olds[at], news[at] = _emptied(olds[at], old), _emptied(news[at], new)
    return replace(before, cells=olds), replace(after, cells=news)


def _is(cells: pa.Array, value: Any) -> Bools:
    return flags_of(pc.equal(cells, pa.scalar(value, cells.type)))


def _emptied(cells: pa.Array, rows: Bools) -> pa.Array:
    return pc.if_else(pa.array(rows), pa.scalar(None, cells.type), cells) if rows.any() else cells


@lru_cache(maxsize=64)
def _stand_ins(plan: TablePlan) -> Sequence[tuple[int, Any, bool]]:
    """Returns the large columns with a stand-in: number, stand-in, and whether deletes may lack the value."""
    large, columns = _large(plan.writer_schema), plan.written_columns
    stand_ins = [(at, _stand_in(*columns[at], plan), columns[at][0].is_lob) for at in large]
    return [stand_in for stand_in in stand_ins if stand_in[1] is not None]


def _stand_in(column: Column, field: Field | None, plan: TablePlan) -> Any:
    """Returns the value written in place of NULL in this column, or None if nobody says which."""
    without_block = None if column.nullable else ""
    text = without_block if field is None else field.stand_in
    return None if text is None else cell_of(column, plan.source, field).read(text)
