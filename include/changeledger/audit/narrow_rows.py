"""Narrow rows for Great Expectations: a column for each rule, NULL where it holds, else the reason as text.

Each change of the run has a row. Intervals, keys, ids and records have a row only if they break a rule, and
so does a change that does not fit another one. `WHERE`, which locates a row, is filled only for rows that
break a rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from changeledger.kernels import order
from changeledger.kernels.arrow import Bools, Indices, column, same, table_of, valid
from changeledger.kernels.display import keys_as_json, text_of

# What a row is about. Every CHANGE of the run has a row, so its rows can be counted.
CHANGE: Final = "change"
OTHER: Final = "other"
# The kind of a row about a rule that could not be checked, and how its reason begins.
RULE: Final = "rule"
NOT_CHECKED: Final = "not checked: "

WHERE: Final = ("table", "key", "position", "change_id")
OF_CHANGES: Final = (
    "mask_agrees_with_images", "operation_has_its_images", "key_not_null", "lsn_width", "one_log",
    "loads_come_first", "lsns_stay", "order_strict",
)  # fmt: skip
RULES: Final = (
    *OF_CHANGES, "change_id_unique", "duplicates_leave_one", "interval_forward", "one_open_interval",
    "changes_are_applied", "current_equals_open_history", "current_key_unique", "current_key_not_null",
    "image_chain", "no_quarantined_records", "shapes_fit_contracts", "no_unpaired_images",
)  # fmt: skip
ROWS: Final = pa.schema([(name, pa.string()) for name in ("kind", *WHERE, *RULES)])
# The output of kernels that judge rows.
NARROW: Final = "narrow"
OUTPUTS: Final = {NARROW: ROWS}


class Broken(NamedTuple):
    """The rows that break a rule, in ascending order, and why: one text for all, or one for each."""

    at: Indices
    why: str | Sequence[str]


Check = Callable[[], Broken]


class Judged(NamedTuple):
    """Rows to which rules apply. `key`, `position`, `change_id`: the names of the columns that have them."""

    table: str
    rows: pa.Table
    key: str | None = None
    position: str | None = None
    change_id: str | None = None
    kind: str = OTHER


def narrow(of: Judged, checks: Mapping[str, Check]) -> pa.Table:
    """Returns `ROWS`: all changes, or other rows that break a rule; and one row for each rule that raises."""
    broken: dict[str, Broken] = {}
    errors: dict[str, str] = {}
    for name, check in checks.items():
        try:
            broken[name] = check()
        except Exception as error:  # noqa: BLE001 - whatever it is, the rule has not been checked
            errors[name] = f"{type(error).__name__}: {error}".split("\n", 1)[0]
    return pa.concat_tables([_narrow(of, broken), unchecked(of.table, errors)])


def _narrow(of: Judged, broken: Mapping[str, Broken]) -> pa.Table:
    wrong = np.unique(np.concatenate([np.zeros(0, np.int64), *(failed.at for failed in broken.values())]))
    at = np.arange(len(of.rows)) if of.kind == CHANGE else wrong
    cells: dict[str, Any] = {
        # An array, which sets the number of rows.
        "kind": same(of.kind, len(at)),
        "table": of.table,
        **{name: _placed(at, failed.at, failed.why) for name, failed in broken.items()},
    }
    if of.change_id:
        cells["change_id"] = _placed(
            at, wrong, column(of.rows, of.change_id).take(pa.array(wrong)).to_pylist()
        )
    if of.key:
        cells["key"] = _placed(at, wrong, key_texts(column(of.rows, of.key).take(pa.array(wrong))))
    if of.position:
        places = column(of.rows, of.position).take(pa.array(wrong)).to_pylist()
        cells["position"] = _placed(at, wrong, [*map(position_text, places)])
    return table_of(cells, ROWS)


def _placed(rows: Indices, at: Indices, texts: str | Sequence[str | None]) -> pa.StringArray | None:
    """Returns the texts at their rows, NULL elsewhere."""
    if not len(at):
        return None
    cells = np.full(len(rows), None, object)
    cells[np.searchsorted(rows, at)] = texts
    return pa.array(cells, pa.string())


def unchecked(table: str, errors: Mapping[str, str]) -> pa.Table:
    """Returns `ROWS` of rules that could not be checked."""
    rows = [{"kind": RULE, "table": table, name: NOT_CHECKED + error} for name, error in errors.items()]
    return pa.Table.from_pylist(rows, ROWS)


def rows_that(violate: Bools, why: str) -> Broken:
    return Broken(np.flatnonzero(violate), why)


def repeated(columns: Sequence[pa.Array], rows: int) -> list[Indices]:
    """Returns groups of rows that are equal in all columns; two NULLs are equal."""
    codes = order.codes(columns, rows)
    at = order.repeated(codes)
    in_order = at[np.argsort(codes[at], kind="stable")]
    bounds = [*np.flatnonzero(order.begins([codes[in_order]], len(in_order))).tolist(), len(in_order)]
    return [in_order[begin:end] for begin, end in pairwise(bounds)]


def each_of(groups: Iterable[Indices], why: Callable[[int], str], most: int | None = None) -> Broken:
    """Returns the rows of groups, up to `most` of each. `why` gives the reason for a group's size."""
    said = sorted((int(row), why(len(group))) for group in groups for row in group[:most])
    return Broken(np.array([row for row, _ in said], np.int64), [text for _, text in said])


def cells(keys: pa.StructArray) -> list[pa.Array]:
    """Returns the columns of keys, NULL where the key is NULL."""
    columns: list[pa.Array] = keys.flatten()
    return columns


def whole(keys: pa.StructArray) -> Bools:
    """Returns which keys have a value in each of their columns."""
    return reduce(np.logical_and, map(valid, cells(keys)))


def key_texts(keys: pa.Array) -> list[str | None]:
    """Formats keys as JSON, as in the lake's other tables for people. Texts are keys in JSON already."""
    if pa.types.is_string(keys.type):
        texts: list[str | None] = keys.to_pylist()
        return texts
    return [*keys_as_json({field.name: cell for field, cell in zip(keys.type, cells(keys), strict=True)})]


def position_text(position: Mapping[str, Any] | None) -> str:
    """Formats a position: `topic[partition] offset`, or the change table and its row."""
    record = position or {}
    partition, row = record.get("partition"), record.get("row")
    source = "" if partition is None else f"[{partition}]"
    parts = (text_of(v) for v in (row, record.get("offset")) if v is not None)
    return " ".join([f"{record.get('source') or '(no source)'}{source}", *parts])
