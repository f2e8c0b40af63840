"""History (SCD type 2): one interval per change and key, from the ordered changes of the keys touched.

An update of a key ends the old key's row and begins the new key's: it has one effect on each (`effects`). A
truncate has an effect on each key that was alive at its position (ADR 0008). A snapshot row that shows what
is already known of its key has no effect. A deleted key has an open interval, too (ADR 0006).

A bucket must have all rows of its keys, and each bucket all truncates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.kernels import order
from changeledger.kernels.arrow import (
    INSTANT,
    Bools,
    Indices,
    column,
    equal,
    flags_of,
    history_schema,
    row_type,
    table_of,
    taken,
    valid,
)
from changeledger.kernels.images import Image, gaps
from changeledger.model.contract import Contract
from changeledger.reconcile import begin_times, image_chain, images, key_moves
from changeledger.reconcile.effects import (
    CHANGED,
    FORCED,
    MARK,
    SEED,
    of_changes,
    of_intervals,
    of_marks,
    together,
)
from changeledger.reconcile.image_chain import Chain
from changeledger.reconcile.images import Images
from changeledger.reconcile.ordered import OrderedEffects, in_order, with_truncates, without_vain


@dataclass(frozen=True)
class Published:
    """What is published of a bucket's keys."""

    # Open intervals of the keys on which the window has effects, and of the keys alive at its truncates.
    opened: pa.Table
    # `key` and `sort_key` of the ledger's snapshot rows of these keys, at least of those after the first
    # effect. History has no trace of a snapshot row that showed what was already known.
    shown: pa.Table
    # `key` and `sort_key` to rebuild in any case: of rows that `resolve` replaced, and of keys whose row was
    # alive at one of the window's truncates in an interval that is closed.
    again: pa.Table


class History(NamedTuple):
    """The keys' new intervals, in the columns of `change.history_columns`, and breaks of the image chain."""

    # Intervals to append.
    closed: pa.Table
    # One row per key, which replaces the key's open interval, if there is one.
    opened: pa.Table
    # The columns of `change.BREAK_COLUMNS`.
    breaks: pa.Table
    # Keys that must be rebuilt (`rebuilt`), each with the `sort_key` to rebuild from. The tables above have
    # no rows of these keys.
    again: pa.Table


def continued(
    changes: pa.Table, published: Published, truncates: pa.Table, contract: Contract, window_id: str
) -> History:
    """Continues the open intervals. `changes`: the window's, exploded; `truncates`: the whole ledger's."""
    effects = together(
        [
            of_intervals(published.opened, contract),
            of_changes(changes, contract),
            of_marks(published.shown, MARK, contract),
            of_marks(published.again, FORCED, contract),
        ]
    )
    ordered = in_order(with_truncates(effects, truncates, contract))
    return _continued(ordered, contract, window_id, with_seeds=False)


def rebuilt(
    changes: pa.Table, seeds: pa.Table, truncates: pa.Table, contract: Contract, window_id: str
) -> History:
    """Rebuilds the keys' history from a position on.

    `changes`: all the ledger's changes of the keys from there on, including the window's, exploded. `seeds`:
    the intervals that contain the position, for the keys that have one. A seed that nothing follows is in
    `opened`. Without seeds, and with all changes of the keys, no key has to be rebuilt again.
    """
    effects = together([of_intervals(seeds, contract), of_changes(changes, contract)])
    ordered = in_order(with_truncates(effects, truncates, contract))
    return _continued(ordered, contract, window_id, with_seeds=True)


def _continued(ordered: OrderedEffects, contract: Contract, window_id: str, *, with_seeds: bool) -> History:
    """Builds history. `with_seeds`: seeds that nothing follows are in `opened`."""
    is_again, is_new = _is_no_continuation(ordered)
    is_row = np.isin(ordered.effects.origin, (CHANGED, SEED))[ordered.at]
    placed = without_vain(key_moves.in_statement_order(ordered.only(~is_again & is_row), contract))
    filled_images = images.without_repeats(images.filled(placed, contract), contract)
    chain = image_chain.judged(filled_images, contract)
    rows, sequence = _Rows(filled_images, chain, contract, window_id), filled_images.sequence
    # The published row of a seed that nothing follows stays as it is.
    is_written = with_seeds | (sequence.effects.origin[sequence.at] != SEED)
    return History(
        closed=rows.at(np.flatnonzero(sequence.is_followed)),
        opened=rows.at(np.flatnonzero(~sequence.is_followed & is_written)),
        breaks=image_chain.breaks(filled_images, chain, contract, window_id),
        again=_firsts(ordered, is_again & is_new, contract),
    )


def _firsts(ordered: OrderedEffects, places: Bools, contract: Contract) -> pa.Table:
    """Returns each key at these places, with the sort key of its first such place."""
    effects, at = ordered.effects, np.flatnonzero(places)
    first = ordered.at[at[np.unique(ordered.key_number[at], return_index=True)[1]]]
    keys = [taken(cells, first) for cells in effects.key]
    key = pa.StructArray.from_arrays(keys, fields=list(row_type(contract.key)))
    return pa.table({"key": key, "sort_key": taken(column(effects.rows, "sort_key"), first)})


def _is_no_continuation(ordered: OrderedEffects) -> tuple[Bools, Bools]:
    """Returns the places of keys whose history cannot continue from what is published, and rebuild places.

    A rebuild may begin at unpublished changes, forced places, and published places that no longer hold. A
    key's history cannot continue if:

    - A change is older than what is published.
    - The row leaves the key in the transaction in which it arrived, and a window's end separates the two.
      Only all of the key's changes tell which row it is (`key_moves`).
    - A snapshot row begins at another time than the published one (`begin_times`).
    - The position to rebuild from lies between two effects that have exchanged positions (`key_moves`). The
      row that arrived is then not among the changes that follow, but it is among all of the key's changes.
    """
    origin, number = ordered.effects.origin[ordered.at], ordered.key_number
    is_new = origin == CHANGED
    so_far = np.cumsum(is_new)
    earlier = so_far - (so_far - is_new)[order.begun_at(ordered.is_first)]
    is_late = np.isin(origin, (SEED, MARK)) & (earlier > 0)
    is_again = np.bincount(number, weights=is_late | (origin == FORCED), minlength=1) > 0
    is_effect = ~np.isin(origin, (MARK, FORCED))
    of_effects = ordered.only(is_effect)
    places = np.concatenate((_is_parted(of_effects), begin_times.outdated(of_effects)))
    parted = np.flatnonzero(is_effect)[places]
    is_again[number[parted]] = True
    is_again[number[_between_exchanged(ordered)]] = True
    is_new = np.isin(origin, (CHANGED, FORCED))
    is_new[parted] = True
    return is_again[number], is_new


def _is_parted(ordered: OrderedEffects) -> Indices:
    """Returns the seeds that may have to be exchanged with the effect that follows.

    Either the row of the seed arrived at the key, and leaves it in the same transaction. Or the seed covers
    another row, which is deleted then.
    """
    effects, at = ordered.effects, ordered.at
    is_seed = effects.origin[at] == SEED
    places = np.flatnonzero(is_seed & effects.arrives[at] & ordered.behind(effects.goes[at]))
    seeds, leaving = at[places], at[places + 1]
    left_at = taken(column(effects.rows, "committed_at"), leaving)
    since = taken(column(effects.rows, "valid_from"), seeds)
    kind, _, _ = taken(column(effects.rows, "break"), seeds).flatten()
    was_there = equal(kind, image_chain.ROW_WAS_THERE) & valid(left_at)
    return places[flags_of(pc.greater_equal(since, left_at)) | was_there]


def _between_exchanged(ordered: OrderedEffects) -> Indices:
    """Returns the changes that are also their key's seed, where they have exchanged positions.

    The seed is then at the position of the other effect. It may be only the delete of what is now an update
    of the key.
    """
    effects, origin = ordered.effects, ordered.effects.origin[ordered.at]
    seeds = np.flatnonzero(origin == SEED)
    leaving = np.flatnonzero((origin == CHANGED) & effects.goes[ordered.at])
    seed_of_key = np.full(len(ordered), -1)
    seed_of_key[ordered.key_number[seeds]] = ordered.at[seeds]
    of_seeds = taken(column(effects.rows, "change_id"), seed_of_key[ordered.key_number[leaving]])
    ids = (column(effects.rows, name) for name in ("change_id", "paired_change_id"))
    are_same = (flags_of(pc.equal(taken(of, ordered.at[leaving]), of_seeds)) for of in ids)
    return leaving[np.logical_or(*are_same)]


class _Rows:
    """Builds rows of history for any places."""

    def __init__(self, filled_images: Images, chain: Chain, contract: Contract, window_id: str) -> None:
        self.images, self.chain, self.contract, self.window_id = filled_images, chain, contract, window_id
        self.valid_from = begin_times.begin_times(filled_images.sequence)

    def at(self, places: Indices) -> pa.Table:
        sequence, contract = self.images.sequence, self.contract
        rows, at = sequence.effects.rows, sequence.at[places]
        following = np.where(sequence.is_followed[places], places + 1, -1)
        states = None if self.images.states is None else self.images.states[places]
        next_position = np.where(following < 0, -1, sequence.position[following])
        travels = ("change_id", "operation", "commit_lsn", "committed_at", "previous_key")
        sort_key = column(rows, "sort_key")
        by_name = {
            **{f"_{name}": taken(column(rows, name), at) for name in travels},
            "_sort_key": taken(sort_key, sequence.position[places]),
            "_next_sort_key": taken(sort_key, next_position),
            "_unknown_columns": gaps(Image(np.ones(len(places), np.bool_), (), states), contract.names),
            "_window_id": self.window_id,
            "_valid_from": self._time(places),
            "_valid_to": self._time(following),
            "_is_deleted": sequence.effects.is_deleted[at],
            "_break": image_chain.column_of(self.images, self.chain, places, contract),
            **{c.name: self.images.cells(n, places) for n, c in enumerate(contract.columns)},
            # The key's columns come from the key, since a deleted row's image may be unknown.
            **{c.name: taken(cells, at)
               for c, cells in zip(contract.key, sequence.effects.key, strict=True)},
        }  # fmt: skip
        return table_of(by_name, history_schema(contract))

    def _time(self, places: Indices) -> pa.TimestampArray:
        times = np.where(places < 0, begin_times.UNKNOWN, self.valid_from[places])
        is_unknown = times == begin_times.UNKNOWN
        return pa.array(np.where(is_unknown, 0, times), pa.int64(), mask=is_unknown).view(INSTANT)
