"""Rules for what a run builds for the keys that it touches: intervals of the history, and current rows.

Rules for single rows are batch kernels. Rules that compare rows see only the suspects among the keys
(`suspects.suspects`), with all their rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.audit import applied, changes
from changeledger.audit.narrow_rows import (
    NARROW,
    Broken,
    Check,
    Judged,
    cells,
    each_of,
    narrow,
    repeated,
    rows_that,
    whole,
)
from changeledger.kernels import order
from changeledger.kernels.arrow import Indices, column, flags_of
from changeledger.kernels.rows import as_batch

# The inputs of `of_keys`, beside those of `applied`: the run's changes of some keys, their open intervals,
# and their current rows.
CHANGES: Final = "changes"
HISTORY: Final = "history"
CURRENT: Final = "current"


def of_keys(tables: Mapping[str, pa.Table], table: str) -> Mapping[str, pa.Table]:
    """Kernel of the rules for single keys."""
    new, history, current = (tables[name] for name in (CHANGES, HISTORY, CURRENT))
    opened = history.filter(pc.invert(history.column("_valid_to").is_valid()))
    alive = opened.filter(pa.array(~flags_of(column(opened, "_is_deleted"))))
    both = pa.concat_tables([alive, current])
    rules: list[tuple[pa.Table, str, Check]] = [
        (opened, "one_open_interval", lambda: _one_of_each_key(opened, "open intervals")),
        (both, "current_equals_open_history", lambda: _equal(alive, current)),
        (current, "current_key_unique", lambda: _one_of_each_key(current, "current rows")),
    ]
    parts = [narrow(Judged(table, rows, "key", change_id="_change_id"), {n: c}) for rows, n, c in rules]
    of_changes = Judged(table, new, "key", "source_position", "change_id")
    checks: dict[str, Check] = {
        "order_strict": lambda: changes.order_strict(new),
        "one_open_interval": lambda: _without_interval(new, opened),
    }
    parts.append(narrow(of_changes, checks))
    for side in (applied.EFFECTS, applied.INTERVALS):
        located = Judged(table, tables[side], "key", "source_position", "change_id")
        parts.append(narrow(located, {"changes_are_applied": partial(applied.broken, tables, side)}))
    return {NARROW: pa.concat_tables(parts)}


def of_intervals(rows: pa.RecordBatch, table: str) -> pa.RecordBatch:
    """Kernel of the rules for single intervals: the run's own intervals in, `narrow_rows.ROWS` out."""
    return _of_each(rows, table, "interval_forward", _interval_forward)


def of_current(rows: pa.RecordBatch, table: str) -> pa.RecordBatch:
    """Kernel of the rules for single current rows: the run's own rows in, `narrow_rows.ROWS` out."""
    return _of_each(rows, table, "current_key_not_null", _key_not_null)


def _of_each(
    batch: pa.RecordBatch, table: str, rule: str, check: Callable[[pa.Table], Broken]
) -> pa.RecordBatch:
    rows = pa.Table.from_batches([batch])
    judged = Judged(table, rows, "key", change_id="_change_id")
    return as_batch(narrow(judged, {rule: partial(check, rows)}))


def _interval_forward(touched: pa.Table) -> Broken:
    begins, ends = column(touched, "_valid_from"), column(touched, "_valid_to")
    place, following = column(touched, "_sort_key"), column(touched, "_next_sort_key")
    is_shared = flags_of(pc.equal(following, place))
    is_backward = flags_of(pc.less(ends, begins)) | flags_of(pc.less(following, place))
    shared = "another change of the key has the same position in the order, such as one published before"
    rows = np.flatnonzero(is_shared | is_backward)
    return Broken(rows, [shared if is_shared[row] else "the interval ends before it begins" for row in rows])


def _one_of_each_key(rows: pa.Table, what: str) -> Broken:
    groups = repeated(cells(column(rows, "key")), len(rows))
    return each_of(groups, lambda size: f"the key has {size} {what}", most=1)


def _without_interval(new: pa.Table, opened: pa.Table) -> Broken:
    """Finds changes of keys that the history does not have. Keys with NULL are left to `key_not_null`."""
    keys = column(new, "key")
    rows = np.flatnonzero(whole(keys))
    both = pa.concat_arrays([keys.take(pa.array(rows)), column(opened, "key")])
    codes = order.codes(cells(both), len(both))
    lost = _firsts(codes[: len(rows)], codes[len(rows) :])
    return Broken(rows[lost], "the key has changes but no open interval")


def _equal(alive: pa.Table, current: pa.Table) -> Broken:
    """Checks that a key has a current row exactly if it has an open interval that is not deleted.

    Both must be of the same change, and have the same cells.
    """
    both, size = pa.concat_tables([alive, current]), len(alive)
    key, changed = cells(column(both, "key")), column(both, "_change_id")
    codes, versions, wholes = (
        order.codes(of, len(both)) for of in (key, [*key, changed], [*key, changed, column(both, "cells")])
    )
    others = size + _firsts(versions[size:], versions[:size])
    stale = others[np.isin(codes[others], codes[:size])]
    unequal = size + _firsts(wholes[size:], wholes[:size])
    unequal = unequal[np.isin(versions[unequal], versions[:size])]
    broken = (
        (_firsts(codes[:size], codes[size:]), "the key has an open interval but no current row"),
        (size + _firsts(codes[size:], codes[:size]), "the key has a current row but no open interval"),
        (stale, "the current row comes from another change than the open interval"),
        (unequal, "the current row has other values than the open interval"),
    )
    said = sorted((int(row), why) for rows, why in broken for row in rows)
    return Broken(np.array([row for row, _ in said], np.int64), [why for _, why in said])


def _firsts(codes: order.Ranks, others: order.Ranks) -> Indices:
    """Returns the first row of each key that is not among the others."""
    keys, first = np.unique(codes, return_index=True)
    return np.sort(first[~np.isin(keys, others)])


def _key_not_null(rows: pa.Table) -> Broken:
    return rows_that(~whole(column(rows, "key")), "a column of the key is NULL")
