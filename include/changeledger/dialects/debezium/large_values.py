"""Large values that SQL Server's log leaves out, and that come as a plain NULL.

Operation 3 has NULL for a large value that its update did not change, and for `text`, `ntext` and `image`
always, as operation 1 has (Microsoft's page on `cdc.<capture_instance>_CT`, large object data types). A
connector writes that NULL into both images: before 3.6 always (debezium/debezium#7452), since then for the
types and lengths that it does not take for large (#7881, #8078). The message has no mask of changes, so such
a NULL is not known to be one: `kernels.images` calls the cell unavailable.
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
    """Both images, in which NULLs that may stand for a value are gaps.

    `is_update`, `is_delete`: which changes are those of a log that leaves large values out.
    Before an update this is every NULL of a large column; behind it one that has no value before it: what
    an update has emptied is in the log. In a delete it is a NULL of `text`, `ntext` and `image`, and of a
    column that may be one of these.
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
    """Which of the updates have a placeholder for a large value behind a value.

    The log has the old value of a large column only where the update changed it, so also the new one, be
    it NULL. Builds that read the mask of changes from its wrong end take that NULL for a value that was left
    out, in tables of more than eight columns (debezium/debezium#8064). It is reported, and not guessed.
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
