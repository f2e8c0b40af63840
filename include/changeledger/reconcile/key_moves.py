"""The order of the effects on a key that one row leaves and another one takes in one statement (ADR 0016).

A statement is atomic: all its rows leave their old keys, then they arrive at the new ones. A tool that writes
one update for each row writes them in the order of the rows. So where a row takes the key of another one, the
row that arrives can come before the row that leaves, and covers it until then. Nothing can stand between the
two: the key has no other change before the statement ends.

The same two effects are a chain where they are of two statements: a row arrives at a free key, and moves on.

Changes that are ordered by `__$seqval` can have the two halves of an update the other way round: an insert at
a key that holds a row, and then the delete of that row (support.microsoft.com/help/3030352, which brought
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
    """Where a row that is covered leaves before the other one arrives: the two exchange their positions.

    What a key held before a change may depend on those that have exchanged theirs before it.
    """
    while True:
        placed = _deletes_first(_moves_first(ordered, contract), contract)
        if np.array_equal(placed.at, ordered.at):
            return placed
        ordered = placed


def _moves_first(ordered: OrderedEffects, contract: Contract) -> OrderedEffects:
    """Of rows that move to another key.

    One is covered where the key held a row, unless the image of the row that leaves is that of the row that
    arrived, and not the held one's: the end of the held row is lost, or comes later. Where nothing was known
    of the key, that image alone says which row it is. Where it says nothing, either, the order stays as it
    is, and the place is unsure.
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
    is_another = order.running_max(differs.astype(np.int64), of_key) > 0
    is_unsure = ordered.is_unsure.copy()
    is_unsure[ends[~is_known & ~is_another & ~is_comparable]] = True
    held, goes_on = _held_by(ordered, ends)
    is_of_arrived = is_comparable & ~differs & _compared(effects, at[held], at[ends], contract)[0]
    is_chain = order.running_max(is_of_arrived.astype(np.int64), ~goes_on) > 0
    swapped = ends[np.where(is_known, is_held & ~is_chain, is_another)]
    return replace(_exchanged(ordered, swapped), is_unsure=is_unsure)


def _deletes_first(ordered: OrderedEffects, contract: Contract) -> OrderedEffects:
    """Of rows that are deleted: the delete shows the row that was there.

    Where it shows the one that arrived as well, the key decides, which holds one row at a time: an update can
    change no captured column. Only a lost delete would make it otherwise, so the place is unsure. Where
    nothing was known of the key, another row than the one that arrived was there.
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
    are_all = order.running_max((~is_of_held).astype(np.int64), ~goes_on) == 0
    is_unsure = ordered.is_unsure.copy()
    is_unsure[ends[are_all & ~of_arrived]] = True
    return replace(_exchanged(ordered, ends[are_all]), is_unsure=is_unsure)


def _exchanged(ordered: OrderedEffects, places: Indices) -> OrderedEffects:
    """The effects at these places exchange their positions with those before them."""
    placed = ordered.at.copy()
    placed[places], placed[places - 1] = ordered.at[places - 1], ordered.at[places]
    return replace(ordered, at=placed)


def _of_one_transaction(effects: Effects, arrived: Indices, left: Indices) -> Bools:
    """By its id; where the source has none, all changes of a transaction have its commit time."""
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
    """Did the key hold a row before the pair that ends there, and is that known?

    Swap or chain: the key is held after such a pair where it was before.
    """
    is_pair = np.zeros(len(ordered), np.bool_)
    is_pair[ends] = is_pair[ends - 1] = True
    last = np.maximum.accumulate(np.where(is_pair, -1, np.arange(len(ordered))))[ends]
    is_known = last >= order.begun_at(ordered.is_first)[ends]
    return is_known & ~ordered.is_deleted[last], is_known


def _held_by(ordered: OrderedEffects, ends: Indices) -> tuple[Indices, Bools]:
    """The place of the effect that left what the key held before the pair that ends there, if one did.

    Of pairs, one behind the other, the row has come by the pair before. `goes_on`: is it behind another?
    """
    goes_on = np.concatenate(([False], ends[1:] - 2 == ends[:-1])) & ~ordered.is_first[ends - 1]
    return np.where(goes_on, ends - 3, np.maximum(ends - 2, 0)), goes_on


def _compared(effects: Effects, arrived: Indices, left: Indices, contract: Contract) -> tuple[Bools, Bools]:
    """Do the row that arrived and the row that leaves differ in a cell that is known of both, and is one?"""
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
