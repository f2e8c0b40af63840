"""The rule `changes_are_applied`: the run's changes are in the history as the ledger has them.

A change has an interval on each key that it has an effect on. Both sides are compared by hashes, so that
workers shuffle a few bytes of each row. Not compared are the cells of deleted rows, and those of images with
gaps, which history fills.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from changeledger.audit.columns import of_rows
from changeledger.audit.narrow_rows import Broken
from changeledger.kernels import order
from changeledger.kernels.arrow import (
    RECORD,
    Bools,
    Indices,
    batch_of,
    by_name,
    column,
    equal,
    flags_of,
    ledger_schema,
    members,
    row_type,
    valid,
)
from changeledger.kernels.hashed import Hashes, hash_of, hashes_in, row_hash
from changeledger.kernels.rows import as_batch
from changeledger.model import change
from changeledger.model.contract import Contract

EFFECTS: Final = "effects"
INTERVALS: Final = "intervals"

# Hashes of a key; of the key and the change; of these, what the change did, and when; of these with the row's
# cells, NULL where the change does not have them all; and of the key and the place in the order.
_VERSION = tuple((name, pa.int64()) for name in ("hash", "id", "version", "cells", "place"))
# `is_sure`: the change has an interval. A snapshot row has none if it shows what is already known.
EFFECT: Final = pa.schema([*_VERSION, ("is_sure", pa.bool_())])
# Hashes of the key with where the interval begins and ends; NULL: it does not end.
INTERVAL: Final = pa.schema([*_VERSION, ("begin", pa.int64()), ("end", pa.int64())])
# Hashes of a key, and of the key with the change that made its row what it is; of rows that the run has
# written, with the whole row.
VERSION: Final = pa.schema([("hash", pa.int64()), ("version", pa.int64())])
_SHOWN = (("row", pa.int64()), ("is_alive", pa.bool_()))

Numbers = npt.NDArray[np.int64]
SIDES: Final = {EFFECTS: EFFECT, INTERVALS: INTERVAL}
# Flags of rows, each with why such a row breaks the rule.
Faults = list[tuple[Bools, str]]

_DONE = ("operation", "committed_at", "commit_lsn")
_READ = (
    "change_id", "key", "previous_key", *_DONE, "sort_key", "after", "after_unknown_columns",
    "source_position",
)  # fmt: skip
_NOT_READ = ("_break", "_window_id")
_DISPLACED: Final = "no interval of the key has the change's place in the order"
_LACKS: Final = "the history has no interval of the change, or one with another operation, time or key"
_UNEQUAL: Final = "the interval of the change has other values than its new image"
_TWICE: Final = "the key has this interval twice"
_LOOSE: Final = "the interval ends where no other interval of the key begins"


def shown(kind: pa.Schema, contract: Contract) -> pa.Schema:
    """Returns the schema of `effects` or `intervals`: hashes, and what locates a row."""
    where = [("key", row_type(contract.key)), ("change_id", pa.string()), ("source_position", RECORD)]
    return pa.schema([*where, *kind, *(_SHOWN if kind is INTERVAL else ())])


def ledger_read(contract: Contract) -> pa.Schema:
    schema = ledger_schema(contract)
    return pa.schema([schema.field(name) for name in _READ])


def history_read(contract: Contract) -> pa.Schema:
    """Returns the schema of the history's rows without breaks of the image chain."""
    return of_rows(contract, [name for name, _ in change.history_columns(contract) if name not in _NOT_READ])


def current_read(contract: Contract) -> pa.Schema:
    return of_rows(contract, [name for name, _ in change.current_columns(contract) if name not in _NOT_READ])


def effects(changes: pa.RecordBatch, contract: Contract) -> pa.RecordBatch:
    """Returns the effects of ledger rows (`ledger_read`) except truncates, in `shown(EFFECT)`."""
    schema = shown(EFFECT, contract)
    rows = changes.filter(pa.array(~equal(changes.column("operation"), change.TRUNCATE)))
    moved = rows.filter(rows.column("previous_key").is_valid())
    sides = (rows, "key"), (moved, "previous_key")
    parts = [_effects(of_side, side, schema) for of_side, side in sides]
    return as_batch(pa.Table.from_batches(parts))


def _effects(rows: pa.RecordBatch, side: str, schema: pa.Schema) -> pa.RecordBatch:
    key, after, operation = (rows.column(name) for name in (side, "after", "operation"))
    # Only the key at which the row arrives says from where.
    previous_key = pa.nulls(len(rows), key.type) if side == "previous_key" else rows.column("previous_key")
    is_deleted = equal(operation, change.DELETE) | (side == "previous_key")
    is_whole = valid(after) & ~valid(rows.column("after_unknown_columns")) & ~is_deleted
    of_key = members(key)
    values = [cells for name, cells in members(after).items() if name not in of_key]
    hashes = _hashed([key], [rows.column(name) for name in ("change_id", *_DONE)], values)
    columns = {
        **by_name(rows),
        **hashes,
        "key": key,
        "version": _version(hashes, pa.array(is_deleted), previous_key),
        "cells": pa.array(hashes["cells"], mask=~is_whole),
        "place": _row_hash([pa.array(hashes["hash"]), rows.column("sort_key")]),
        "is_sure": ~equal(operation, change.SNAPSHOT),
    }
    return batch_of(columns, schema)


def intervals(rows: pa.RecordBatch, contract: Contract) -> pa.RecordBatch:
    """Returns intervals of a history (`history_read`) in `shown(INTERVAL)`."""
    hashes = _of_row(rows, contract)
    of_key, *ends = pa.array(hashes["hash"]), ("_sort_key", "_valid_from"), ("_next_sort_key", "_valid_to")
    place, following = (_row_hash([of_key, rows.column(name)]) for name, _ in ends)
    begin, end = (
        _row_hash([pa.array(at), rows.column(time)])
        for at, (_, time) in zip((place, following), ends, strict=True)
    )
    columns = {
        **hashes,
        "key": pa.StructArray.from_arrays(_key(rows, contract), fields=list(row_type(contract.key))),
        "change_id": rows.column("_change_id"),
        "source_position": None,
        "version": _version(hashes, rows.column("_is_deleted"), rows.column("_previous_key")),
        "place": place,
        "begin": begin,
        "end": pa.array(end, mask=~(valid(rows.column("_valid_to")) | valid(rows.column("_next_sort_key")))),
        "row": _with_state(hashes["cells"], place, rows),
        "is_alive": ~flags_of(rows.column("_is_deleted")),
    }
    return batch_of(columns, shown(INTERVAL, contract))


def current(rows: pa.RecordBatch, contract: Contract) -> pa.RecordBatch:
    """Returns `VERSION` of current rows: a key, and what `row` is of its interval."""
    hashes = _of_row(rows, contract)
    place = _row_hash([pa.array(hashes["hash"]), rows.column("_sort_key")])
    version = _with_state(hashes["cells"], place, rows)
    return batch_of({"hash": hashes["hash"], "version": version}, VERSION)


def _key(rows: pa.RecordBatch, contract: Contract) -> list[pa.Array]:
    return [rows.column(column.name) for column in contract.key]


def _of_row(rows: pa.RecordBatch, contract: Contract) -> dict[str, Numbers]:
    """Returns the hashes of a history's or current rows. The cells of a row with gaps equal no image."""
    said = [rows.column(f"_{name}") for name in ("change_id", *_DONE)]
    values = [rows.column(column.name) for column in contract.columns if not column.key_position]
    hashes = _hashed(_key(rows, contract), said, values)
    return {**hashes, "cells": hashes["cells"] ^ valid(rows.column("_unknown_columns"))}


def _hashed(
    key: Sequence[pa.Array], said: Sequence[pa.Array], values: Sequence[pa.Array]
) -> dict[str, Numbers]:
    """Returns the hashes of keys, of keys with changes, of these with all that is `said`, and of rows."""
    of_key = hash_of(key).view(np.int64)
    change_id, *done = said
    of_id = _row_hash([pa.array(of_key), change_id])
    of_done = _row_hash([pa.array(of_id), *done])
    return {
        "hash": of_key,
        "id": of_id,
        "done": of_done,
        "cells": _row_hash([pa.array(of_done), *values]),
    }


def _version(
    hashes: Mapping[str, Numbers], is_deleted: pa.BooleanArray, previous_key: pa.StructArray
) -> Numbers:
    return _row_hash([pa.array(hashes["done"]), is_deleted, previous_key])


def _with_state(cells: Numbers, place: Numbers, rows: pa.RecordBatch) -> Numbers:
    return _row_hash([pa.array(cells), pa.array(place), rows.column("_unknown_columns")])


def _row_hash(columns: Sequence[pa.Array]) -> Numbers:
    return row_hash(columns).view(np.int64)


def keys_at_fault(tables: Mapping[str, pa.Table]) -> list[Hashes]:
    """Returns the hashes of keys that break the rule. `tables`: `EFFECTS` and `INTERVALS` of whole keys."""
    return [
        hashes_in(tables[side], "hash")[flags]
        for side, faults in _FAULTS.items()
        for flags, _ in faults(tables[EFFECTS], tables[INTERVALS])
    ]


def broken(tables: Mapping[str, pa.Table], side: str) -> Broken:
    """Returns which of the `EFFECTS` or `INTERVALS` break the rule."""
    faults = _FAULTS[side](tables[EFFECTS], tables[INTERVALS])
    why = {int(row): reason for flags, reason in faults for row in np.flatnonzero(flags)}
    at = sorted(why)
    return Broken(np.array(at, np.int64), [why[row] for row in at])


def _of_effects(effects: pa.Table, intervals: pa.Table) -> Faults:
    of_effects, of_intervals = (
        {name: hashes_in(rows, name) for name, _ in _VERSION} for rows in (effects, intervals)
    )
    match = _matches(of_effects["version"], of_intervals["version"])
    is_applied, at = match >= 0, np.maximum(match, 0)
    # A snapshot row that shows what is already known has no interval. If it has one, it is judged.
    is_lost = ~is_applied & flags_of(column(effects, "is_sure"))
    unsure = np.flatnonzero(~is_applied & ~is_lost)
    is_lost[unsure] = _matches(of_effects["id"][unsure], of_intervals["id"]) >= 0
    if not len(intervals):
        return [(is_lost, _LACKS)]
    is_unequal = is_applied & valid(column(effects, "cells"))
    is_unequal &= of_effects["cells"] != of_intervals["cells"][at]
    # Two changes of a key may have exchanged their places (ADR 0016).
    is_displaced = is_applied & (of_effects["place"] != of_intervals["place"][at])
    displaced = np.flatnonzero(is_displaced)
    is_displaced[displaced] = _matches(of_effects["place"][displaced], of_intervals["place"]) < 0
    return [(is_displaced, _DISPLACED), (is_unequal, _UNEQUAL), (is_lost, _LACKS)]


def _of_intervals(_: pa.Table, intervals: pa.Table) -> Faults:
    version, begin, end = (hashes_in(intervals, name) for name in ("version", "begin", "end"))
    closed = np.flatnonzero(valid(column(intervals, "end")))
    is_loose, is_twice = np.zeros((2, len(intervals)), np.bool_)
    is_loose[closed] = _matches(end[closed], begin) < 0
    is_twice[order.repeated(version)] = True
    return [(is_loose, _LOOSE), (is_twice, _TWICE)]


_FAULTS: Final = {EFFECTS: _of_effects, INTERVALS: _of_intervals}


def _matches(hashes: Hashes, among: Hashes) -> Indices:
    """Returns a place of each hash among the others, or -1."""
    matches = np.full(len(hashes), -1)
    if len(hashes) and len(among):
        # Sorted numbers are searched for much faster.
        by_hash, rows = np.argsort(among), np.argsort(hashes)
        at = np.minimum(np.searchsorted(among[by_hash], hashes[rows]), len(among) - 1)
        is_match = among[by_hash[at]] == hashes[rows]
        matches[rows[is_match]] = by_hash[at[is_match]]
    return matches
