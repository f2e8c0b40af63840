"""Rules for what a run has built of the keys that it touches: intervals of the history, and current rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.audit import changes
from changeledger.audit.findings import (
    FINDINGS,
    SAMPLES,
    SHOWN,
    Check,
    Finding,
    cells,
    checked,
    of_rows,
    repeated,
)
from changeledger.kernels import order
from changeledger.kernels.arrow import Bools, column, flags_of, valid

# The inputs of `KeyRules`: the run's changes; its intervals, and all open ones of the touched keys; all
# current rows of the touched keys. The output.
CHANGES: Final = "changes"
HISTORY: Final = "history"
CURRENT: Final = "current"
FOUND: Final = "found"

_SHOWN = ("key", "_change_id", "_sort_key", "_window_id")
_OF_INTERVALS = (*_SHOWN, "_valid_from", "_valid_to", "_next_sort_key")


@dataclass(frozen=True)
class KeyRules:
    """The rules that look at one key at a time."""

    window_id: str

    def __call__(self, tables: Mapping[str, pa.Table]) -> Mapping[str, pa.Table]:
        history, current = tables[HISTORY], tables[CURRENT]
        return {FOUND: checked(changes.rules(tables[CHANGES]) | rules(history, current, self.window_id))}


OUTPUTS: Final = {FOUND: FINDINGS}


def rules(history: pa.Table, current: pa.Table, window_id: str) -> dict[str, Check]:
    """By name."""
    opened = history.filter(pc.invert(history.column("_valid_to").is_valid()))
    return {
        "interval_forward": lambda: _interval_forward(_of_run(history, window_id)),
        "one_open_interval": lambda: _one_of_each_key(opened),
        "current_equals_open_history": lambda: _equal(opened, current),
        "current_key_unique": lambda: _one_of_each_key(current),
        "current_key_not_null": lambda: _key_not_null(_of_run(current, window_id)),
    }


def _of_run(rows: pa.Table, window_id: str) -> pa.Table:
    return rows.filter(pc.equal(rows.column("_window_id"), window_id))


def _interval_forward(touched: pa.Table) -> Finding:
    begins, ends = column(touched, "_valid_from"), column(touched, "_valid_to")
    place, following = column(touched, "_sort_key"), column(touched, "_next_sort_key")
    backward = flags_of(pc.less(ends, begins)) | flags_of(pc.less_equal(following, place))
    return of_rows(touched, backward, _OF_INTERVALS)


def _one_of_each_key(rows: pa.Table) -> Finding:
    keys, ids = column(rows, "key"), column(rows, "_change_id")
    number, groups = repeated(cells(keys), len(rows))
    offences = [
        {
            "key": keys[int(group[0])].as_py(),
            "rows": len(group),
            "change_ids": ids.take(pa.array(group[:SHOWN])).to_pylist(),
        }
        for group in groups
    ]
    return Finding(number, samples=tuple(offences))


def _equal(opened: pa.Table, current: pa.Table) -> Finding:
    """A key has a current row exactly where it has an open interval of a row that is there."""
    alive = opened.filter(pa.array(~flags_of(column(opened, "_is_deleted"))))
    key_of_alive, key_of_current = column(alive, "key"), column(current, "key")
    both = [pa.concat_arrays(pair) for pair in zip(cells(key_of_alive), cells(key_of_current), strict=True)]
    codes = order.codes(both, len(alive) + len(current))
    in_history, in_current = codes[: len(alive)], codes[len(alive) :]
    only_history = _firsts(in_history, in_current)
    only_current = _firsts(in_current, in_history)
    offences = [
        *(_counts(key_of_alive, int(at), 0, in_history) for at in only_history[:SAMPLES]),
        *(_counts(key_of_current, int(at), 1, in_current) for at in only_current[:SAMPLES]),
    ]
    return Finding(len(only_history) + len(only_current), samples=tuple(offences[:SAMPLES]))


def _firsts(codes: order.Ranks, others: order.Ranks) -> Any:
    """The first row of each key that is not among the others."""
    found, first = np.unique(codes, return_index=True)
    return first[~np.isin(found, others)]


def _counts(keys: pa.StructArray, at: int, is_current: int, codes: order.Ranks) -> dict[str, Any]:
    rows = int((codes == codes[at]).sum())
    return {
        "key": keys[at].as_py(),
        "current_rows": rows if is_current else 0,
        "open_history_rows": 0 if is_current else rows,
    }


def _key_not_null(rows: pa.Table) -> Finding:
    missing: Bools = np.zeros(len(rows), np.bool_)
    for cell in cells(column(rows, "key")):
        missing |= ~valid(cell)
    return of_rows(rows, missing, _SHOWN)
