"""The image chain: each change must find its row as the change before left it. If it does not, it is a break.

What no tool can be blamed for is not a break: cells that one of the two does not know, the same value in
another form (`kernels.equality`), the first known change of a key, whatever a snapshot finds, and what was
committed before a snapshot's row was read (ADR 0012).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.kernels import display, equality
from changeledger.kernels.arrow import (
    BREAK,
    Bools,
    Bytes,
    Indices,
    column,
    flags_of,
    named_where,
    table_of,
    table_schema,
    taken,
    with_column,
)
from changeledger.kernels.cells import KNOWN
from changeledger.model import change
from changeledger.model.contract import Contract
from changeledger.reconcile.effects import SEED
from changeledger.reconcile.images import Images
from changeledger.reconcile.key_moves import ORDER_UNKNOWN
from changeledger.reconcile.ordered import OrderedEffects

# An update or a delete found other values than were last known.
CELLS_DIFFER: Final = "cells_differ"
# An update or a delete of a row that is not there.
ROW_WAS_GONE: Final = "row_was_gone"
# An insert of a row that is there.
ROW_WAS_THERE: Final = "row_was_there"

BREAKS = table_schema(change.BREAK_COLUMNS)
_KINDS = pa.array([None, CELLS_DIFFER, ROW_WAS_GONE, ROW_WAS_THERE, ORDER_UNKNOWN], pa.string())
_NONE, _DIFFER, _GONE, _PRESENT, _UNSURE = range(5)


@dataclass(frozen=True)
class Chain:
    """How each place of a sequence follows from the place before."""

    # Indices into `_KINDS`. Seeds have no break here: they keep the one with which they were written.
    kinds: Bytes
    # The places with differing cells, and those cells: rows x columns of the contract.
    rows: Indices
    differing: Bools

    @property
    def broken(self) -> Indices:
        return np.flatnonzero(self.kinds)


def judged(images: Images, contract: Contract) -> Chain:
    sequence = images.sequence
    effects, at = sequence.effects, sequence.at
    is_deleted = sequence.is_deleted
    was_there = sequence.before(~is_deleted) & ~_may_be_shown(sequence)
    was_gone = sequence.before(is_deleted)
    begins = effects.is_a(change.INSERT)[at] | effects.moved_here[at]
    goes_on = (effects.is_update[at] | effects.is_a(change.DELETE)[at]) & ~begins
    rows = np.flatnonzero(goes_on & was_there & (effects.before[at] >= 0))
    differing = _differing(images, rows, contract)
    is_broken = differing.any(axis=1)
    kinds = np.zeros(len(sequence), np.uint8)
    kinds[rows[is_broken]] = _DIFFER
    kinds[goes_on & was_gone] = _GONE
    kinds[begins & was_there] = _PRESENT
    kinds[sequence.is_unsure] = _UNSURE
    kinds[effects.origin[at] == SEED] = _NONE
    return Chain(kinds, rows[is_broken], differing[is_broken])


def _may_be_shown(sequence: OrderedEffects) -> Bools:
    """Returns the changes that the snapshot row before them may show already, although they come later.

    Its position may be older than the reading of the row: a tool takes the position of a snapshot first. What
    was committed before the row was read is in it, and then arrives from the log once more.
    """
    effects, at = sequence.effects, sequence.at
    times = taken(column(effects.rows, "committed_at"), at)
    is_earlier = np.zeros(len(at), np.bool_)
    is_earlier[1:] = flags_of(pc.less_equal(times[1:], times[:-1]))
    return is_earlier & sequence.before(effects.is_a(change.SNAPSHOT)[at])


def _differing(images: Images, rows: Indices, contract: Contract) -> Bools:
    """Returns which cells outside the key are known of the row as found and as left, and differ."""
    effects, at = images.sequence.effects, images.sequence.at[rows]
    before = effects.before[at]
    differing = np.zeros((len(rows), len(contract.columns)), np.bool_)
    for number, described in enumerate(contract.columns):
        if described.key_position:
            continue
        as_left = images.cells(number, rows - 1)
        differing[:, number] = equality.differ(taken(effects.pool[number], before), as_left, described)
    if images.states is not None:
        differing &= images.states[rows - 1] == KNOWN
    if effects.before_states is not None:
        differing &= effects.before_states[at] == KNOWN
    return differing


def column_of(images: Images, chain: Chain, places: Indices, contract: Contract) -> pa.StructArray:
    """Returns `change.BREAK_TYPE` of these places, NULL without a break; seeds keep their own."""
    sequence = images.sequence
    rows = sequence.effects.rows
    broken = chain.broken
    ids = taken(column(rows, "change_id"), sequence.at[broken - 1])
    new = pa.StructArray.from_arrays(
        [_KINDS.take(pa.array(chain.kinds[broken])), _columns(chain, contract), ids], fields=list(BREAK)
    )
    source = np.where(sequence.effects.origin[sequence.at] == SEED, sequence.at, -1)
    source[broken] = len(rows) + np.arange(len(broken))
    return taken(pa.concat_arrays([column(rows, "break"), new]), source[places])


def _columns(chain: Chain, contract: Contract) -> pa.ListArray:
    """Returns the columns that differ in each break; NULL for breaks of another kind."""
    broken = chain.broken
    is_differing = chain.kinds[broken] == _DIFFER
    column_flags = np.zeros((len(broken), len(contract.columns)), np.bool_)
    column_flags[is_differing] = chain.differing[np.isin(chain.rows, broken[is_differing])]
    return named_where(column_flags, contract.names, is_differing)


def breaks(images: Images, chain: Chain, contract: Contract, window_id: str) -> pa.Table:
    """Returns the breaks in `change.BREAK_COLUMNS`, each with both images."""
    sequence, rows = images.sequence, chain.broken
    effects, at = sequence.effects, sequence.at[rows]
    travels = ("change_id", "operation", "sort_key", "commit_lsn", "committed_at", "flags", "source_position")
    judgement = column_of(images, chain, rows, contract)
    kinds, columns, previous = judgement.flatten()
    keys = {c.name: taken(cells, at) for c, cells in zip(contract.key, effects.key, strict=True)}
    before_states = None if effects.before_states is None else effects.before_states[at]
    known_states = None if images.states is None else images.states[rows - 1]
    # The key's columns come from the key, since a deleted row's image may be unknown.
    known = [keys.get(c.name, images.cells(n, rows - 1)) for n, c in enumerate(contract.columns)]
    before = [taken(pool, effects.before[at]) for pool in effects.pool]
    by_name = {
        **{name: taken(column(effects.rows, name), at) for name in travels},
        "window_id": window_id,
        "table": contract.table,
        "key": display.keys_as_json(keys),
        "previous_change_id": previous,
        "previous_sort_key": taken(column(effects.rows, "sort_key"), sequence.position[rows - 1]),
        "kind": kinds,
        "columns": columns,
        "known": display.images_as_texts(known, known_states, np.ones(len(rows), np.bool_), contract),
        "before": display.images_as_texts(before, before_states, effects.before[at] >= 0, contract),
    }
    return table_of(by_name, BREAKS)


def first_found(runs: Mapping[tuple[str, str], str], breaks: pa.RecordBatch) -> pa.RecordBatch:
    """Returns the breaks, each with the run that found it first. `runs`: by key (as JSON) and change id."""
    places = zip(breaks.column("key").to_pylist(), breaks.column("change_id").to_pylist(), strict=True)
    own_runs = breaks.column("window_id").to_pylist()
    first = [runs.get(place, run) for place, run in zip(places, own_runs, strict=True)]
    return with_column(breaks, "window_id", pa.array(first, pa.string()))
