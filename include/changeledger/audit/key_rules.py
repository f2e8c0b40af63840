"""Rules for what a run has built of the keys that it touches: intervals of the history, and current rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.audit import changes
from changeledger.audit.narrow_rows import (
    CHANGE,
    ROWS,
    Broken,
    Check,
    Judged,
    cells,
    first_of,
    narrow,
    repeated,
    rows_that,
)
from changeledger.kernels import order
from changeledger.kernels.arrow import Bools, Indices, column, flags_of, valid

# The inputs of `KeyRules`: the run's changes; its intervals, and all open ones of the touched keys; all
# current rows of the touched keys. The output.
CHANGES: Final = "changes"
HISTORY: Final = "history"
CURRENT: Final = "current"
FOUND: Final = "found"


@dataclass(frozen=True)
class KeyRules:
    """The rules that look at one key at a time."""

    table: str
    window_id: str

    def __call__(self, tables: Mapping[str, pa.Table]) -> Mapping[str, pa.Table]:
        new, history, current = (tables[name] for name in (CHANGES, HISTORY, CURRENT))
        of_changes = Judged(self.table, new, "key", "source_position", "change_id", CHANGE)
        parts = [narrow(of_changes, changes.rules(new))]
        for rows, checks in _built_rules(history, current, self.window_id):
            parts.append(narrow(Judged(self.table, rows, "key", change_id="_change_id"), checks))
        return {FOUND: pa.concat_tables(parts)}


OUTPUTS: Final = {FOUND: ROWS}


def _built_rules(
    history: pa.Table, current: pa.Table, window_id: str
) -> Iterator[tuple[pa.Table, dict[str, Check]]]:
    """Rules by name, with the rows that each group of them is asked of."""
    opened = history.filter(pc.invert(history.column("_valid_to").is_valid()))
    touched, own = _of_run(history, window_id), _of_run(current, window_id)
    alive = opened.filter(pa.array(~flags_of(column(opened, "_is_deleted"))))
    yield touched, {"interval_forward": lambda: _interval_forward(touched)}
    yield opened, {"one_open_interval": lambda: _one_of_each_key(opened, "open intervals")}
    yield (
        pa.concat_tables([alive, current]),
        {"current_equals_open_history": lambda: _equal(alive, current)},
    )
    yield current, {"current_key_unique": lambda: _one_of_each_key(current, "current rows")}
    yield own, {"current_key_not_null": lambda: _key_not_null(own)}


def _of_run(rows: pa.Table, window_id: str) -> pa.Table:
    return rows.filter(pc.equal(rows.column("_window_id"), window_id))


def _interval_forward(touched: pa.Table) -> Broken:
    begins, ends = column(touched, "_valid_from"), column(touched, "_valid_to")
    place, following = column(touched, "_sort_key"), column(touched, "_next_sort_key")
    backward = flags_of(pc.less(ends, begins)) | flags_of(pc.less_equal(following, place))
    return rows_that(backward, "the interval ends before it begins")


def _one_of_each_key(rows: pa.Table, what: str) -> Broken:
    groups = repeated(cells(column(rows, "key")), len(rows))
    return first_of(groups, lambda size: f"the key has {size} {what}")


def _equal(alive: pa.Table, current: pa.Table) -> Broken:
    """A key has a current row exactly where it has an open interval of a row that is there."""
    both = pa.concat_tables([alive, current])
    codes = order.codes(cells(column(both, "key")), len(both))
    in_history, in_current = codes[: len(alive)], codes[len(alive) :]
    only_history = _firsts(in_history, in_current)
    only_current = len(alive) + _firsts(in_current, in_history)
    why = ["an open interval and no current row"] * len(only_history)
    why += ["a current row and no open interval"] * len(only_current)
    return Broken(np.concatenate([only_history, only_current]), why)


def _firsts(codes: order.Ranks, others: order.Ranks) -> Indices:
    """The first row of each key that is not among the others."""
    keys, first = np.unique(codes, return_index=True)
    return np.sort(first[~np.isin(keys, others)])


def _key_not_null(rows: pa.Table) -> Broken:
    missing: Bools = np.zeros(len(rows), np.bool_)
    for cell in cells(column(rows, "key")):
        missing |= ~valid(cell)
    return rows_that(missing, "a column of the key is NULL")
