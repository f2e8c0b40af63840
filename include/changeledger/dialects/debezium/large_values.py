"""Marks large values that SQL Server's log leaves out, and that arrive as a plain NULL.

Operation 3 (before an update) has NULL for a large value that the update did not change. For `text`, `ntext`
and `image`, operations 3 and 1 (delete) always have NULL (Microsoft's page on `cdc.<capture_instance>_CT`,
large object data types).
A connector writes that NULL into both images: before 3.6 always (debezium/debezium#7452), since then for the
types and lengths that it does not take for large (#7881, #8078). Without a change mask such a NULL cannot be
told from a real one, so the cell is marked as unavailable (`kernels.images`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from changeledger.kernels import images
from changeledger.kernels.arrow import Bools
from changeledger.kernels.cells import UNAVAILABLE
from changeledger.kernels.images import Image
from changeledger.model.contract import Contract


def without_unsent(
    before: Image, after: Image, is_update: Bools, is_delete: Bools, writer_schema: Contract
) -> tuple[Image, Image]:
    """Returns both images with NULLs that may stand for a value marked as unavailable.

    `is_update`, `is_delete`: the changes from a log that leaves large values out.

    * Before an update: every NULL of a large column.
    * After an update: a NULL of a large column without a value before, as the log has each value that an
      update set to NULL.
    * In a delete: a NULL of `text`, `ntext` or `image`, or of a column that may be one of these.
    """
    large = _large(writer_schema)
    if not large or not (is_update | is_delete).any():
        return before, after
    columns = [writer_schema.columns[at] for at in large]
    never_in_deletes = np.array([c.is_lob for c in columns], np.bool_)
    had_value = _had_value(before, large)
    update, delete = is_update[:, None], is_delete[:, None]
    before = images.without_nulls(before, large, update | (delete & never_in_deletes))
    after = images.without_nulls(after, large, update & ~had_value)
    return before, after


def behind_a_value(before: Image, after: Image, is_update: Bools, writer_schema: Contract) -> Bools:
    """Returns which updates have a placeholder after a known value of a large column.

    The log has the old value of a large column only if the update changed the column, and then also the new
    value, even NULL. Connector builds that read the change mask from the wrong end take that NULL for a value
    that was left out, in tables of more than eight columns (debezium/debezium#8064). The change is flagged;
    its value is not guessed.
    """
    large = _large(writer_schema)
    if not large or after.states is None:
        return np.zeros(len(is_update), np.bool_)
    had_value = _had_value(before, large)
    is_one: Bools = is_update & (had_value & (after.states[:, large] == UNAVAILABLE)).any(axis=1)
    return is_one


def _had_value(before: Image, large: Sequence[int]) -> Bools:
    had_value: Bools = images.has_value(before, large) & before.present[:, None]
    return had_value


def _large(writer_schema: Contract) -> list[int]:
    return [at for at, c in enumerate(writer_schema.columns) if c.is_large and not c.key_position]
