"""Orders the effects on a key that one row leaves and another row takes in one statement (ADR 0016).

A statement is atomic: all its rows leave their old keys, then they arrive at the new ones. A tool that writes
one update per row writes them in the order of the rows. So when a row takes another row's key, its arrival
can come before the other row's departure, and it covers that row until then. No other effect can lie between
the two: the key has no other change before the statement ends.

If the same two effects are of two statements, they are a chain: a row arrives at a free key, and moves on.

Changes that are ordered by `__$seqval` can have the two halves of an update in reverse order: an insert at a
key that holds a row, then the delete of that row (support.microsoft.com/help/3030352, which introduced
`__$command_id`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow.compute as pc

from changeledger.kernels import equality, order
from changeledger.kernels.arrow import Bools, Indices, column, flags_of, taken, valid
from changeledger.kernels.cells import KNOWN
from changeledger.kernels.masks import any_set
from changeledger.model import change
from changeledger.model.contract import Contract
from changeledger.reconcile.effects import SEED, Effects
from changeledger.reconcile.ordered import OrderedEffects

# A row arrived at a key and left it in one transaction, and nothing says whether it is the same row.
ORDER_UNKNOWN: Final = "order_unknown"


def in_statement_order(ordered: OrderedEffects, contract: Contract) -> OrderedEffects:
    """Exchanges an arrival and a departure where the row that leaves is the one that the arrival covers.

    Repeats this until nothing changes: what a key held before a change may depend on exchanges before it.
    """
    while True:
        placed = _deletes_first(_moves_first(ordered, contract), contract)
        if np.array_equal(placed.at, ordered.at):
            return placed
        ordered = placed


def _moves_first(ordered: OrderedEffects, contract: Contract) -> OrderedEffects:
    """Exchanges effects where the row that leaves moves to another key.

    If the key held a row, the arrival covers it, unless the leaving row's image is that of the row that
    arrived and not of the row that was held: then the held row's end is lost, or comes later. If nothing was
    known of the key, only that image tells which row leaves. If it does not tell, either, the order stays as
    it is, and the place is unsure.
    """
    effects, at = ordered.effects, ordered.at
    ends = np.flatnonzero(effects.leaves[at] & ordered.before(effects.arrives[at]))
    ends = ends[_of_one_transaction(effects, at[ends - 1], at[ends])]
    if not len(ends):
        return ordered
    is_held, is_known = _held_before(ordered, ends)
    differs, is_comparable = _compared(effects, at[ends - 1], at[ends], contract)
    start = order.begun_at(ordered.is_first)[ends]
    of_key = order.begins([start], len(ends))
    is_another = order.running_max(differs, of_key)
    is_unsure = ordered.is_unsure.copy()
    is_unsure[ends[~is_known & ~is_another & ~is_comparable]] = True
    held, goes_on = _held_by(ordered, ends)
    is_of_arrived = is_comparable & ~differs & _compared(effects, at[held], at[ends], contract)[0]
    is_chain = order.running_max(is_of_arrived, ~goes_on)
    swapped = ends[np.where(is_known, is_held & ~is_chain, is_another)]
    return replace(_exchanged(ordered, swapped), is_unsure=is_unsure)


def _deletes_first(ordered: OrderedEffects, contract: Contract) -> OrderedEffects:
    """Exchanges effects where the row that leaves is deleted, and the delete shows the row that was held.

    If the delete shows the row that arrived just as well, the key decides, since it holds one row at a time
    (an update may change no captured column). Only a lost delete would make this wrong, so the place is
    unsure. If nothing was known of the key, the delete must show another row than the one that arrived.
    """
    effects, at = ordered.effects, ordered.at
    ends = np.flatnonzero(effects.is_a(change.DELETE)[at] & ordered.before(effects.arrives[at]))
    ends = ends[_of_one_transaction(effects, at[ends - 1], at[ends])]
    if not len(ends):
        return ordered
    held, goes_on = _held_by(ordered, ends)
    of_arrived, _ = _compared(effects, at[ends - 1], at[ends], contract)
    of_another, is_comparable = _compared(effects, at[held], at[ends], contract)
    is_of_held = ~ordered.is_deleted[held] & is_comparable & ~of_another
    is_of_held = np.where(ordered.is_first[ends - 1], of_arrived, is_of_held)
    are_all = ~order.running_max(~is_of_held, ~goes_on)
    is_unsure = ordered.is_unsure.copy()
    is_unsure[ends[are_all & ~of_arrived]] = True
    return replace(_exchanged(ordered, ends[are_all]), is_unsure=is_unsure)


def _exchanged(ordered: OrderedEffects, places: Indices) -> OrderedEffects:
    """Exchanges the positions of the effects at these places and of those before them."""
    placed = ordered.at.copy()
    placed[places], placed[places - 1] = ordered.at[places - 1], ordered.at[places]
    return replace(ordered, at=placed)


def _of_one_transaction(effects: Effects, arrived: Indices, left: Indices) -> Bools:
    """Returns which pairs are of one transaction, by its id or, if the source has none, by commit time."""
    ids, times = (column(effects.rows, name) for name in ("transaction_id", "committed_at"))
    arrived_ids, left_ids = taken(ids, arrived), taken(ids, left)
    has_id = [
        valid(transaction_ids) & ~flags_of(pc.equal(transaction_ids, ""))
        for transaction_ids in (arrived_ids, left_ids)
    ]
    same_id = flags_of(pc.equal(arrived_ids, left_ids)) & has_id[0]
    same_time = flags_of(pc.equal(taken(times, arrived), taken(times, left))) & ~has_id[0] & ~has_id[1]
    is_same: Bools = (same_id | same_time) & (effects.origin[arrived] != SEED)
    return is_same


def _held_before(ordered: OrderedEffects, ends: Indices) -> tuple[Bools, Bools]:
    """Returns whether the key held a row before each pair that ends at `ends`, and whether that is known.

    After a pair, be it a swap or a chain, the key holds a row exactly if it did before.
    """
    is_pair = np.zeros(len(ordered), np.bool_)
    is_pair[ends] = is_pair[ends - 1] = True
    last = np.maximum.accumulate(np.where(is_pair, -1, np.arange(len(ordered))))[ends]
    is_known = last >= order.begun_at(ordered.is_first)[ends]
    return is_known & ~ordered.is_deleted[last], is_known


def _held_by(ordered: OrderedEffects, ends: Indices) -> tuple[Indices, Bools]:
    """Returns the place of the effect that left what the key held before each pair, and `goes_on`.

    `goes_on`: the pair directly follows another pair, so the held row is the one that arrived in that pair.
    """
    goes_on = np.concatenate(([False], ends[1:] - 2 == ends[:-1])) & ~ordered.is_first[ends - 1]
    return np.where(goes_on, ends - 3, np.maximum(ends - 2, 0)), goes_on


def _compared(effects: Effects, arrived: Indices, left: Indices, contract: Contract) -> tuple[Bools, Bools]:
    """Returns whether the two rows differ in a cell known of both, and whether there is such a cell."""
    outside = [(at, c) for at, c in enumerate(contract.columns) if not c.key_position]
    has_images = (effects.image[arrived] >= 0) & (effects.image[left] >= 0)
    is_known = np.repeat(has_images[:, None], len(outside), axis=1)
    differs = np.zeros_like(is_known)
    for number, (at, described) in enumerate(outside):
        arrived_cells, left_cells = (taken(effects.pool[at], effects.image[rows]) for rows in (arrived, left))
        differs[:, number] = equality.differ(arrived_cells, left_cells, described)
        if effects.states is not None:
            is_known[:, number] &= (effects.states[arrived, at] == KNOWN) & (
                effects.states[left, at] == KNOWN
            )
    return any_set(differs & is_known), any_set(is_known)
