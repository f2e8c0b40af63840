"""Finds the keys and ids that rules have to check, by hashes: a few bytes of each row are moved, not the row.

Rules that compare rows with each other can break only where hashes are equal, or have no match. The rules
themselves compare the values of these suspects, so two unequal rows with the same hash do not break a rule.
But a row that lacks its match is not a suspect if another row has the same 64-bit hash, as with the sums of
all records (`record_sums`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from changeledger.audit import applied, ids
from changeledger.kernels import order
from changeledger.kernels.arrow import Bools, column, flags_of, numbers
from changeledger.kernels.hashed import Hashes, Key, hash_of, hashes_in
from changeledger.kernels.touched import HASHES

# Inputs, beside those of `ids.of_ids`: places of the run's changes; open intervals, and current rows, of
# the touched keys.
PLACES: Final = "places"
OPENED: Final = "opened"
CURRENT: Final = "current"
# Outputs.
KEYS: Final = "keys"
IDS: Final = "ids"
OUTPUTS: Final = {KEYS: HASHES, IDS: HASHES}

# Hashes of a key, and of the key with the change's place in the order.
PLACE: Final = pa.schema([("hash", pa.int64()), ("place", pa.int64())])
# `is_alive`: the open interval is not deleted.
OPEN: Final = pa.schema([*applied.VERSION, ("is_alive", pa.bool_())])


def key(rows: pa.RecordBatch) -> Hashes:
    """Returns the hashes that the rows have."""
    return numbers(rows.column("hash")).view(np.uint64)


def places(changes: pa.RecordBatch) -> pa.RecordBatch:
    """Returns `PLACE` of ledger rows."""
    keys = changes.column("key")
    hashes = hash_of([keys]), hash_of([keys, changes.column("sort_key")])
    return pa.RecordBatch.from_arrays([*map(_as_column, hashes)], schema=PLACE)


def opened(history: pa.RecordBatch, key_of_rows: Key) -> pa.RecordBatch:
    """Returns `OPEN` of the open intervals among rows of a history."""
    rows = history.filter(history.column("_valid_to").is_null())
    is_alive = pa.array(~flags_of(rows.column("_is_deleted")))
    return pa.RecordBatch.from_arrays([*versions(rows, key_of_rows).columns, is_alive], schema=OPEN)


def opened_by_run(intervals: pa.RecordBatch) -> pa.RecordBatch:
    """Returns `OPEN` of the open ones among the run's intervals (`applied.INTERVAL`)."""
    rows = intervals.filter(intervals.column("end").is_null())
    columns = [rows.column(name) for name in ("hash", "row", "is_alive")]
    return pa.RecordBatch.from_arrays(columns, schema=OPEN)


def versions(rows: pa.RecordBatch, key_of_rows: Key) -> pa.RecordBatch:
    """Returns `applied.VERSION` of rows of a history, or of current rows."""
    keys = _as_column(key_of_rows(rows))
    hashes = hash_of([keys, rows.column("_change_id")])
    return pa.RecordBatch.from_arrays([keys, _as_column(hashes)], schema=applied.VERSION)


def each(rows: pa.RecordBatch, key_of: Key) -> pa.RecordBatch:
    """Returns the `HASHES` of all rows, including repeated ones."""
    return pa.RecordBatch.from_arrays([_as_column(key_of(rows))], schema=HASHES)


def ids_of_changes(changes: pa.RecordBatch) -> pa.RecordBatch:
    """Returns `HASHES` of the ids of ledger rows, and of the halves that they have joined."""
    halves = changes.column("paired_change_id").drop_null()
    hashes = hash_of([pa.concat_arrays([changes.column("change_id"), halves])])
    return pa.RecordBatch.from_arrays([_as_column(hashes)], schema=HASHES)


def suspects(tables: Mapping[str, pa.Table]) -> Mapping[str, pa.Table]:
    """Kernel that finds suspects (`OUTPUTS`) in a bucket of hashes.

    `tables`: places and rows of keys, the inputs of `applied`, and hashes of the ids in those of `ids`.
    """
    # Keys with two changes at one place; with changes and no open interval; with two open intervals or two
    # current rows; with one of the two but not the other; or with both, in different versions.
    keys, at = (hashes_in(tables[PLACES], name) for name in PLACE.names)
    is_open, current = (hashes_in(tables[name]) for name in (OPENED, CURRENT))
    is_alive = flags_of(column(tables[OPENED], "is_alive"))
    alive, shown = hashes_in(tables[OPENED], "version")[is_alive], hashes_in(tables[CURRENT], "version")
    at_one_place = keys[order.is_among(at, _repeated(at))]
    unmatched = is_open[is_alive][_is_alone(alive, shown)], current[_is_alone(shown, alive)]
    of_keys = [at_one_place, _without(keys, is_open), _repeated(is_open), _repeated(current), *unmatched]
    of_keys += applied.keys_at_fault(tables)
    # Ids that two changes have, that are published already, or that a duplicate names and no change has.
    inputs = (ids.NEW, ids.PUBLISHED, ids.DUPLICATES, ids.STAYED)
    new, published, duplicates, stayed = (hashes_in(tables[name]) for name in inputs)
    again = new[order.is_among(new, order.distinct(published))]
    of_ids = [_repeated(new), again, _without(_without(duplicates, new), stayed)]
    return {KEYS: _each_once(of_keys), IDS: _each_once(of_ids)}


def _each_once(parts: Sequence[Hashes]) -> pa.Table:
    """Returns the distinct `HASHES` of all parts."""
    return pa.Table.from_arrays([_as_column(order.distinct(np.concatenate(parts)))], schema=HASHES)


def _repeated(hashes: Hashes) -> Hashes:
    """Returns the hashes that occur more than once, each once."""
    ascending = np.sort(hashes)
    return order.distinct(ascending[1:][ascending[1:] == ascending[:-1]])


def _without(hashes: Hashes, others: Hashes) -> Hashes:
    return hashes[_is_alone(hashes, others)]


def _is_alone(hashes: Hashes, others: Hashes) -> Bools:
    return ~order.is_among(hashes, order.distinct(others))


def _as_column(hashes: Hashes) -> pa.Int64Array:
    return pa.array(hashes.view(np.int64))
