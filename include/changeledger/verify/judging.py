"""Judges single keys: compares their rows in the source with the versions that they may have had."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from changeledger.compare.cells import CellHashes, Numbers
from changeledger.compare.columns import Columns
from changeledger.kernels import order
from changeledger.kernels.arrow import Bools, Indices, column, flags_of, taken, valid
from changeledger.verify.verdicts import (
    DIFFERS,
    DRIFTS,
    EQUAL,
    EXTRA,
    IN_FLIGHT,
    LOADED_LATER,
    MISSING,
    VERDICTS,
)
from changeledger.verify.versions import CURRENT, HISTORY, SOURCE, VERSIONS, key_codes

_CODES: Final = {verdict: code for code, verdict in enumerate(VERDICTS)}

ROWS: Final = "rows"
COUNTS: Final = "counts"
WRONG: Final = "wrong"
COUNTED: Final = pa.schema([("verdict", pa.string()), ("keys", pa.int64()), ("unknown", pa.int64())])
# `numbers`: indices of the columns that differ. `change_id`: that of the compared version, if there is one.
JUDGED: Final = pa.schema(
    [
        *(VERSIONS.field(name) for name in ("key_1", "key_2", "bucket")),
        ("verdict", pa.string()),
        ("numbers", pa.list_(pa.int32())),
        ("change_id", pa.string()),
    ]
)
OUTPUTS: Final = {COUNTS: COUNTED, WRONG: JUDGED}


class _Versions(NamedTuple):
    """The rows that keys may have had when the source was read, each key's in order, and facts about each.

    `right`: the row existed at some moment of the fence. `fresh`: nothing existed before the row, and it
    began after the beginning of the fence, so the key may not have existed yet. Each row is one or both.
    `repeated`: the key has several current rows, of which at most one can be right.
    """

    rows: Indices
    right: Bools
    fresh: Bools
    alive: Bools
    touched: Bools
    loaded_later: Bools
    repeated: Bools


class _Source(NamedTuple):
    """Each key's row in the source, or -1; and whether the source has several rows of an untouched key.

    What is published has one row per key.
    """

    rows: Indices
    repeated: Bools


def judge(
    tables: Mapping[str, pa.Table], columns: Columns, differing: Sequence[int]
) -> Mapping[str, pa.Table]:
    """Judges keys of the `differing` buckets, and keys apart, one by one. Rows may have other keys, too."""
    rows = tables[ROWS]
    keys, part = key_codes(rows), column(rows, "part").to_numpy()
    size = int(keys.max(initial=-1)) + 1
    touched = _any(keys[flags_of(column(rows, "is_behind"))], size)
    apart = touched | _any(keys[(part == CURRENT) & flags_of(column(rows, "has_gaps"))], size)
    looked_at = np.isin(column(rows, "bucket").to_numpy(), list(differing)) | apart[keys]
    versions = _versions(rows, keys, part, touched, looked_at)
    cells = CellHashes.of(column(rows, "cells"), len(columns.forms))
    read = np.flatnonzero((part == SOURCE) & looked_at)
    repeated = (np.bincount(keys[read], minlength=size) > 1) & ~touched
    source = _Source(_worst(cells, keys, read, versions, size), repeated)
    return _judged(rows, keys, cells, source, versions)


def _judged(
    rows: pa.Table, keys: Numbers, cells: CellHashes, source: _Source, versions: _Versions
) -> Mapping[str, pa.Table]:
    size = len(source.rows)
    of = keys[versions.rows]
    source_cells, published_cells = cells.take(source.rows[of]), cells.take(versions.rows)
    bad = source_cells.differing(published_cells)
    live = versions.right & versions.alive
    is_equal = live & (source.rows[of] >= 0) & ~bad.any(axis=1) & ~versions.repeated
    is_there, has_version = source.rows >= 0, _any(of, size)
    equal, lived = _any(of[is_equal], size), _any(of[live], size)
    may_lack = _any(of[~versions.alive | versions.fresh], size)
    in_flight, loaded_later = (_any(of[flags], size) for flags in (versions.touched, versions.loaded_later))
    fine = np.where(in_flight, _CODES[IN_FLIGHT], _CODES[EQUAL])
    verdict = np.select(
        [equal & ~source.repeated, loaded_later, is_there & lived & ~equal, is_there, may_lack],
        [fine, fine, *(np.full(size, _CODES[v]) for v in (DIFFERS, MISSING)), fine],
        _CODES[EXTRA],
    )
    unknown = _least((~published_cells.known).sum(axis=1)[is_equal], of[is_equal], size)
    seen = is_there | has_version
    counts = _counted(verdict, seen, is_there, unknown, loaded_later)
    wrong = np.flatnonzero(seen & np.isin(verdict, [_CODES[v] for v in DRIFTS]))
    at = _newest(of, live, size)[wrong]
    numbers = [
        np.flatnonzero(bad[version]).tolist() if code == _CODES[DIFFERS] else None
        for version, code in zip(at.tolist(), verdict[wrong].tolist(), strict=True)
    ]
    some = np.zeros(size, np.int64)
    some[keys] = np.arange(len(keys))
    compared = np.full(len(wrong), -1)
    compared[at >= 0] = versions.rows[at[at >= 0]]
    columns = [
        *rows.select(["key_1", "key_2", "bucket"]).take(pa.array(some[wrong])).columns,
        pa.array(VERDICTS).take(pa.array(verdict[wrong])),
        pa.array(numbers, pa.list_(pa.int32())),
        taken(column(rows, "change_id"), compared),
    ]
    return {COUNTS: counts, WRONG: pa.table(columns, schema=JUDGED)}


def _worst(cells: CellHashes, keys: Numbers, read: Indices, versions: _Versions, size: int) -> Indices:
    """Returns each key's row in the source, or -1; of several, the first that equals no version.

    A key that is stated in the feed's YAML may distinguish fewer rows than the source has.
    """
    source = np.full(size, -1)
    source[keys[read[::-1]]] = read[::-1]
    several = read[np.bincount(keys[read], minlength=size)[keys[read]] > 1]
    if len(several):
        live = versions.rows[versions.right & versions.alive]
        live = live[np.argsort(keys[live], kind="stable")]
        begins, ends = (np.searchsorted(keys[live], keys[several], side) for side in ("left", "right"))
        counts = ends - begins
        at = np.repeat(np.arange(len(several)), counts)
        version = live[np.arange(len(at)) - np.repeat(np.cumsum(counts) - counts, counts) + begins[at]]
        is_equal = ~cells.take(several[at]).differing(cells.take(version)).any(axis=1)
        odd = np.delete(several, at[is_equal])[::-1]
        source[keys[odd]] = odd
    return source


def _any(keys: Numbers, size: int) -> Bools:
    flags = np.zeros(size, np.bool_)
    flags[keys] = True
    return flags


def _least(numbers: Numbers, keys: Numbers, size: int) -> Numbers:
    """Returns the lowest number of each key; 0 if it has none."""
    least = np.full(size, np.iinfo(np.int64).max)
    np.minimum.at(least, keys, numbers)
    return np.where(_any(keys, size), least, 0)


def _versions(rows: pa.Table, keys: Numbers, part: Numbers, touched: Bools, looked_at: Bools) -> _Versions:
    past = np.flatnonzero((part == HISTORY) & touched[keys])
    nexts = column(rows, "next_sort_key").take(pa.array(past))
    sequence = order.words(column(rows, "sort_key").take(pa.array(past)))
    ranks = [keys[past], *sequence, ~valid(nexts), *order.words(nexts)]
    past = past[order.by(ranks, len(past))]
    first = order.begins([keys[past]], len(past))
    behind = flags_of(column(rows, "is_behind"))[past]
    # A version lasts at least until the next one begins.
    lasted = np.ones(len(past), np.bool_)
    lasted[:-1] = behind[1:] | first[1:]
    right, fresh = flags_of(column(rows, "is_begun"))[past] & lasted, first & behind
    stay = right | fresh
    loaded_later = fresh & flags_of(column(rows, "is_loaded"))[past]
    now = np.flatnonzero((part == CURRENT) & ~touched[keys] & looked_at)
    repeated = np.bincount(keys[now], minlength=len(touched))[keys[now]] > 1
    alive = ~flags_of(column(rows, "is_deleted"))[past]
    in_flight = touched[keys[past]]
    # Each flag of versions in history, and of current rows.
    flags = (
        (right, True), (fresh, False), (alive, True), (in_flight, False), (loaded_later, False),
        (np.zeros(len(past), np.bool_), repeated),
    )  # fmt: skip
    of_rows = (np.concatenate((of_past[stay], np.full(len(now), of_now))) for of_past, of_now in flags)
    return _Versions(np.concatenate((past[stay], now)), *of_rows)


def _newest(of: Numbers, live: Bools, size: int) -> Indices:
    """Returns the last live version of each key, whose versions are in order; -1 if there is none."""
    at = np.flatnonzero(live)
    newest = np.full(size, -1)
    # Of several values for one index, numpy keeps the last.
    newest[of[at]] = at
    return newest


def _counted(
    verdict: Numbers, seen: Bools, is_there: Bools, unknown: Numbers, loaded_later: Bools
) -> pa.Table:
    # A key that exists on neither side does not count as a row.
    is_row = seen & ((verdict != _CODES[EQUAL]) | is_there)
    keys = [int((is_row & (verdict == code)).sum()) for code in range(len(VERDICTS))]
    cells = [int(unknown[seen & (verdict == code)].sum()) for code in range(len(VERDICTS))]
    names = pa.array([*VERDICTS, LOADED_LATER])
    return pa.table([names, pa.array([*keys, int(loaded_later.sum())]), pa.array([*cells, 0])], COUNTED)
