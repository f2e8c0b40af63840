"""Rules for the rows that a run adds to a ledger, on narrow columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.audit import rules
from changeledger.audit.columns import AFTER_KEY, BEFORE_KEY, HAS_AFTER, HAS_BEFORE
from changeledger.audit.narrow_rows import (
    CHANGE,
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
from changeledger.kernels.arrow import Bools, column, equal, flags_of, holding, valid
from changeledger.kernels.images import differs
from changeledger.kernels.rows import as_batch
from changeledger.model import change

_NEEDED = ("change_id", "sort_key", "operation", "committed_at")
_LSN_BYTES: Final = 10
# Returns which changes of a window do not belong where they arrive, such as those of another log than what
# was read before.
Strangers = Callable[[pa.Table], Bools]
_ARRIVE: Final[Mapping[str, str]] = {
    rules.ONE_LOG: "the change is of another log",
    rules.LOADS_FIRST: "the loaded row counts as older than every change of its key",
    rules.LSNS_STAY: "the change counts as older than every change that has a log sequence number",
}


def of_each(
    changes: pa.RecordBatch, table: str, strangers: Mapping[str, Strangers] = MappingProxyType({})
) -> pa.RecordBatch:
    """Kernel of the rules for single changes: the run's ledger rows in, `narrow_rows.ROWS` of each out.

    `strangers`: by name, how to check those of `rules.OF_ARRIVAL` that apply to the source.
    """
    rows = pa.Table.from_batches([changes])
    judged = Judged(table, rows, "key", "source_position", "change_id", CHANGE)
    return as_batch(narrow(judged, _rules(rows, strangers)))


def _rules(changes: pa.Table, strangers: Mapping[str, Strangers]) -> dict[str, Check]:
    """Returns the checks by the names of their rules."""

    def those_that(violated: Callable[[pa.Table], Bools], why: str) -> Check:
        return lambda: rows_that(violated(changes), why)

    return {
        **{name: those_that(are_those, _ARRIVE[name]) for name, are_those in strangers.items()},
        # The flag is set where the change is made, which compares cell by cell.
        "mask_agrees_with_images": those_that(
            lambda rows: holding(column(rows, "flags"), change.MASK_DISAGREES),
            "the mask contradicts the images",
        ),
        "operation_has_its_images": those_that(
            lambda rows: ~_images_fit(rows), "the images do not fit the operation"
        ),
        "key_not_null": those_that(_identity_missing, "a part of the change's identity is NULL"),
        "lsn_width": those_that(_wrong_width, "a log sequence number is not 10 bytes wide"),
    }


def _images_fit(changes: pa.Table) -> Bools:
    """Returns whether each row has the images of its operation, each with the key that the change says."""
    operation, keys, old_keys = (column(changes, name) for name in ("operation", "key", "previous_key"))
    no_before, no_after = (~flags_of(column(changes, name)) for name in (HAS_BEFORE, HAS_AFTER))
    keyed_before = _has_key(column(changes, BEFORE_KEY), pc.if_else(old_keys.is_valid(), old_keys, keys))
    keyed_after = _has_key(column(changes, AFTER_KEY), keys)
    reported_missing = holding(column(changes, "flags"), change.BEFORE_UNKNOWN)
    is_new = equal(operation, change.INSERT) | equal(operation, change.SNAPSHOT)
    fits: Bools = is_new & no_before & keyed_after
    fits |= equal(operation, change.DELETE) & keyed_before & no_after
    fits |= equal(operation, change.UPDATE) & keyed_after & (keyed_before | (no_before & reported_missing))
    fits |= equal(operation, change.TRUNCATE) & no_before & no_after
    return fits


def _has_key(in_image: pa.StructArray, keys: pa.StructArray) -> Bools:
    """Returns whether the images have a whole key: that of the change, unless `key_not_null` finds it."""
    sides = zip(cells(in_image), cells(keys), strict=True)
    is_other: Bools = reduce(np.logical_or, (differs(*of_side) for of_side in sides))
    return whole(in_image) & ~(whole(keys) & is_other)


def _identity_missing(changes: pa.Table) -> Bools:
    # A truncate concerns the table, so it has no key.
    keyless = ~whole(column(changes, "key")) & ~equal(column(changes, "operation"), change.TRUNCATE)
    source = column(changes, "source_position").flatten()[0]
    needed = [*(column(changes, name) for name in _NEEDED), source]
    missing: Bools = reduce(np.logical_or, (~valid(cell) for cell in needed), keyless)
    return missing


def _wrong_width(changes: pa.Table) -> Bools:
    widths = [pc.binary_length(column(changes, name)) for name in ("commit_lsn", "change_lsn")]
    wrong: Bools = reduce(np.logical_or, (flags_of(pc.not_equal(width, _LSN_BYTES)) for width in widths))
    return wrong


def order_strict(changes: pa.Table) -> Broken:
    """Checks that no two changes of a key share a position. `changes`: all of the run, for some keys."""
    columns = [*cells(column(changes, "key")), column(changes, "sort_key")]
    groups = repeated(columns, len(changes))
    return each_of(groups, lambda size: f"{size} changes of the key have this position in the order")
