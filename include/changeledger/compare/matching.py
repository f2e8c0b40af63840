"""Matches the effects of two feeds by place, key, and their number there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from changeledger.compare.effects import DELETED, INSERTED, OTHER, REFERENCE, UPDATED, Effects
from changeledger.kernels import order
from changeledger.kernels.arrow import Bools, Indices, numbers
from changeledger.kernels.order import Ranks


class Pairs(NamedTuple):
    """Indices of effects of the reference and of the other feed; -1 where an effect has no partner."""

    reference: Indices
    other: Indices

    def only(self, which: Bools) -> Pairs:
        return Pairs(self.reference[which], self.other[which])

    @property
    def some(self) -> Indices:
        """One effect of each pair: the reference's, if there is one."""
        return np.where(self.reference >= 0, self.reference, self.other)

    @property
    def is_both(self) -> Bools:
        both: Bools = (self.reference >= 0) & (self.other >= 0)
        return both


def of_key(effects: Effects) -> list[Ranks]:
    return [effects.key_1, effects.key_2]


def of_place(effects: Effects) -> list[Ranks]:
    return [*of_key(effects), *order.words(effects.place)]


def joined_in_transaction(effects: Effects) -> Effects:
    """Joins a delete and the insert of its key that directly follows, in one transaction, to an update.

    The insert may come first: for rows that exchange their keys, and for updates in the order of `__$seqval`
    (ADR 0016).
    """
    group = [*of_place(effects), effects.side]
    size = len(effects)
    at = order.by([*group, *order.words(effects.sort_key)], size)
    first = order.begins([ranks[at] for ranks in (*group, effects.transaction)], size)
    at = _deletes_first(effects, at, first)
    op = effects.op[at]
    behind = _behind(op, first)
    if not behind.any():
        return effects
    before = np.where(behind, np.roll(at, 1), at)
    stay = ~_goes_on(behind)
    joined = effects.take(at[stay])
    return replace(
        joined,
        op=np.where(behind[stay], UPDATED, joined.op).astype(np.int32),
        before=effects.before.take(before[stay]),
        text_before=effects.text_before.take(before[stay]),
        apart=behind[stay],
    )


def _behind(op: Ranks, first: Bools) -> Bools:
    """Returns which effects, in their order, are an insert directly after a delete."""
    behind = np.zeros(len(op), np.bool_)
    behind[1:] = (op[1:] == INSERTED) & (op[:-1] == DELETED) & ~first[1:]
    return behind


def _goes_on(behind: Bools) -> Bools:
    goes_on = np.zeros(len(behind), np.bool_)
    goes_on[:-1] = behind[1:]
    return goes_on


def _deletes_first(effects: Effects, at: Indices, first: Bools) -> Indices:
    """Moves an insert behind the delete that directly follows it.

    Only where that makes both sides do the same to the key: the delete can also be that of the inserted row.
    """
    op = effects.op[at]
    ends = np.flatnonzero((op[1:] == DELETED) & (op[:-1] == INSERTED) & ~first[1:]) + 1
    if not len(ends):
        return at
    exchanged = at.copy()
    exchanged[ends], exchanged[ends - 1] = at[ends - 1], at[ends]
    of_both = order.begins([ranks[at] for ranks in of_place(effects)], len(at))
    agree = [_do_the_same(effects, places, first, of_both) for places in (at, exchanged)]
    return np.where(agree[1] & ~agree[0], exchanged, at)


def _do_the_same(effects: Effects, at: Indices, first: Bools, of_both: Bools) -> Bools:
    """Returns, for effects in their order, whether both sides have the same operations in the same sequence.

    Sides are compared group by group; `of_both`: where a group of both sides begins.
    """
    op = effects.op[at]
    behind = _behind(op, first)
    stay = ~_goes_on(behind)
    of_side = of_both | np.concatenate(([True], effects.side[at][1:] != effects.side[at][:-1]))
    stayed = np.cumsum(stay)
    begun = order.begun_at(of_side)
    number = stayed - stayed[begun] + stay[begun]
    # A hash of each sequence. Those of equal sequences cancel each other out.
    powers = np.cumprod(np.full(len(at) + 1, 0x9E3779B97F4A7C15, np.uint64))
    said = (np.where(behind, UPDATED, op).astype(np.uint64) + np.uint64(1)) * powers[number] * stay
    signed = np.where(effects.side[at] == REFERENCE, said, np.uint64(0) - said)
    starts = np.flatnonzero(of_both)
    same = np.add.reduceat(signed, starts) == 0
    alike: Bools = same[np.cumsum(of_both) - 1]
    return alike


def numbered(group: Sequence[Ranks], sequence: Sequence[Ranks], size: int) -> Indices:
    """Numbers the rows of each group from 0, in the order of the sequence."""
    at = order.by([*group, *sequence], size)
    first = order.begins([ranks[at] for ranks in group], size)
    row_numbers = np.zeros(size, np.int64)
    row_numbers[at] = np.arange(size) - order.begun_at(first)
    return row_numbers


def paired(group: Sequence[Ranks], side: Ranks) -> Pairs:
    """Pairs the rows of each group, in which each side has at most one row. Other rows stay alone."""
    size = len(side)
    at = order.by([*group, side], size)
    first = order.begins([ranks[at] for ranks in group], size)
    starts = np.flatnonzero(first)
    ends = np.append(starts[1:], size)[: len(starts)] - 1
    leading, last = at[starts], at[ends]
    nothing = np.int64(-1)
    return Pairs(
        np.where(side[leading] == REFERENCE, leading, nothing), np.where(side[last] == OTHER, last, nothing)
    )


def matched(effects: Effects, apart: Bools) -> Pairs:
    """Pairs the effects of both sides, each once. Effects that are `apart` are not paired with the others."""
    size = len(effects)
    group = [*of_place(effects), apart]
    number = numbered([*group, effects.side], order.words(effects.sort_key), size)
    return paired([*group, number], effects.side)


def group_numbers(group: Sequence[Ranks], size: int) -> Indices:
    """Returns the number of each row's group, from 0, in the order of the ranks."""
    at = order.by(group, size)
    row_numbers = np.zeros(size, np.int64)
    row_numbers[at] = np.cumsum(order.begins([ranks[at] for ranks in group], size)) - 1
    return row_numbers


def surplus_no_ops(effects: Effects, place: Indices) -> Bools:
    """Returns updates that change nothing, at places where both sides have equally many effects without them.

    `place`: the number of each effect's place and key.
    """
    size = int(place.max(initial=-1)) + 1
    surplus = np.zeros(len(effects), np.bool_)
    for side in (REFERENCE, OTHER):
        of_side = effects.side == side
        no_op = of_side & effects.no_op
        more = np.bincount(place[of_side], minlength=size) - np.bincount(place[~of_side], minlength=size)
        surplus |= no_op & (np.bincount(place[no_op], minlength=size) == more)[place]
    return surplus


def are_among(effects: Effects, places: pa.BinaryArray, keys: Sequence[Ranks]) -> Bools:
    """Returns which effects are at one of the places, on its key."""
    both = pa.concat_arrays([effects.place, places]).dictionary_encode(null_encoding="encode")
    ranks = [
        numbers(both.indices),
        *(np.concatenate(pair) for pair in zip(of_key(effects), keys, strict=True)),
    ]
    group = group_numbers(ranks, len(both))
    wanted = np.zeros(len(both), np.bool_)
    wanted[group[len(effects) :]] = True
    return wanted[group[: len(effects)]]
