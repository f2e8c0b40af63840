"""Effects grouped by key and in order: sorted once, then compared neighbour by neighbour."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.kernels import order
from changeledger.kernels.arrow import Bools, Bytes, Indices, column, flags_of, taken
from changeledger.model import change
from changeledger.model.contract import Contract
from changeledger.reconcile.effects import CHANGED, SEED, Effects, of_truncate, together


@dataclass(frozen=True)
class OrderedEffects:
    """m places, each with an effect. The places of a key are together and in order.

    `at`: the effect. `position`: the effect whose sort key the place has, which is another effect where two
    have exchanged their positions (`key_moves`).
    """

    effects: Effects
    at: Indices
    position: Indices
    # Whether the place is the first of its key.
    is_first: Bools
    # Whether it is unknown if the effect came before or after the preceding one.
    is_unsure: Bools

    def __len__(self) -> int:
        return len(self.at)

    def only(self, places: Bools) -> OrderedEffects:
        """Returns these places."""
        if places.all():
            return self
        return replace(
            self,
            at=self.at[places],
            position=self.position[places],
            is_first=order.begins([self.key_number[places]], int(places.sum())),
            is_unsure=self.is_unsure[places],
        )

    @property
    def is_deleted(self) -> Bools:
        return self.effects.is_deleted[self.at]

    def before(self, flags: Bools) -> Bools:
        """Returns `flags` of the preceding place of the same key; False if there is none."""
        shifted = np.zeros(len(flags), np.bool_)
        shifted[1:] = flags[:-1]
        return shifted & ~self.is_first

    def behind(self, flags: Bools) -> Bools:
        """Returns `flags` of the following place of the same key; False if there is none."""
        shifted = np.zeros(len(flags), np.bool_)
        shifted[:-1] = flags[1:] & ~self.is_first[1:]
        return shifted

    @property
    def is_followed(self) -> Bools:
        return self.behind(np.ones(len(self), np.bool_))

    @property
    def key_number(self) -> Indices:
        return np.cumsum(self.is_first) - 1

    def states(self) -> Bytes | None:
        return None if self.effects.states is None else self.effects.states[self.at]


def in_order(effects: Effects) -> OrderedEffects:
    """Orders effects by key and sort key, then by partition and offset, with NULL first."""
    size = len(effects)
    of_key = order.codes(effects.key, size)
    ranks = [of_key, *order.words(column(effects.rows, "sort_key"))]
    at = order.by(ranks, size)
    if not order.begins([rank[at] for rank in ranks], size).all():
        _, partition, offset, _ = column(effects.rows, "source_position").flatten()
        ranks += [*order.nulls_first(partition), *order.nulls_first(offset)]
        at = order.by(ranks, size)
    is_first = order.begins([of_key[at]], size)
    return OrderedEffects(effects, at, at, is_first, np.zeros(size, np.bool_))


def with_truncates(effects: Effects, truncates: pa.Table, contract: Contract) -> Effects:
    """Adds the effects of truncates (there are few) on the keys that existed before them (ADR 0008)."""
    if not len(truncates):
        return effects
    ordered = in_order(effects)
    of_rows = ordered.only(np.isin(effects.origin, (CHANGED, SEED))[ordered.at])
    firsts = of_rows.at[of_rows.is_first]
    begun = taken(column(effects.rows, "sort_key"), firsts)
    parts = [effects]
    for row in range(len(truncates)):
        truncate = truncates.slice(row, 1)
        behind = firsts[flags_of(pc.less(begun, truncate.column("sort_key")[0]))]
        if len(behind):
            parts.append(of_truncate(truncate, [taken(cells, behind) for cells in effects.key], contract))
    return together(parts)


def without_vain(ordered: OrderedEffects) -> OrderedEffects:
    """Drops effects of truncates that found no row of their key."""
    is_truncate = ordered.effects.is_a(change.TRUNCATE)[ordered.at]
    return ordered.only(~(is_truncate & ordered.before(ordered.is_deleted)))
