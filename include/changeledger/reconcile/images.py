"""The images of a sequence, with their gaps filled from what is known of the key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from changeledger.kernels import order
from changeledger.kernels.arrow import Bools, Bytes, Indices, taken
from changeledger.kernels.cells import KNOWN
from changeledger.kernels.images import differs
from changeledger.model import change
from changeledger.model.contract import Contract
from changeledger.reconcile.ordered import OrderedEffects


@dataclass(frozen=True)
class Images:
    """One image for each place of a sequence, as indices into the pool of its effects; -1 is no value."""

    sequence: OrderedEffects
    image: Indices
    # By column number: the indices of its cells, if they do not come from `image`.
    carried: Mapping[int, Indices]
    # The states of cells that are still unknown, places x columns; None if all are known.
    states: Bytes | None

    def only(self, places: Bools) -> Images:
        if places.all():
            return self
        return replace(
            self,
            sequence=self.sequence.only(places),
            image=self.image[places],
            carried={at: cells[places] for at, cells in self.carried.items()},
            states=None if self.states is None else self.states[places],
        )

    def sources(self, number: int, places: Indices) -> Indices:
        return self.carried.get(number, self.image)[places]

    def cells(self, number: int, places: Indices) -> pa.Array:
        """Returns the cells of a column at these places."""
        return taken(self.sequence.effects.pool[number], self.sources(number, places))


def filled(ordered: OrderedEffects, contract: Contract) -> Images:
    """Fills each gap with the key's last known cell since its row appeared. Other gaps remain."""
    image, states = ordered.effects.image[ordered.at], ordered.states()
    if states is None:
        return Images(ordered, image, {}, None)
    # A row that appears again takes no cells from a deleted row of the same key. A row that comes from
    # another key takes none from the row that it finds there, whose end is not known.
    appears = ordered.before(ordered.is_deleted) | ordered.effects.moved_here[ordered.at]
    begins = order.begun_at(ordered.is_first | appears)
    places, carried = np.arange(len(ordered)), {}
    remaining = np.zeros_like(states)
    for number, described in enumerate(contract.columns):
        is_gap = states[:, number] != KNOWN
        if not is_gap.any():
            continue
        last = np.where(is_gap, -1, places)
        # A computed value changes with other columns: the last known value may be outdated.
        if described.name.lower() not in contract.computed:
            last = np.maximum.accumulate(last)
        is_known = last >= begins
        carried[number] = np.where(is_known, image[last], -1)
        remaining[:, number] = np.where(is_known, KNOWN, states[:, number])
    return Images(ordered, image, carried, remaining if remaining.any() else None)


def without_repeats(images: Images, contract: Contract) -> Images:
    """Drops snapshot rows that show what is already known."""
    sequence = images.sequence
    is_shown = sequence.effects.is_a(change.SNAPSHOT)[sequence.at]
    rows = np.flatnonzero(is_shown & sequence.before(~sequence.is_deleted))
    if not len(rows):
        return images
    is_news = np.zeros(len(rows), np.bool_)
    for number, _ in enumerate(contract.columns):
        is_news |= differs(images.cells(number, rows), images.cells(number, rows - 1))
    if images.states is not None:
        gaps = (images.states != KNOWN).sum(axis=1)
        is_news |= gaps[rows] != gaps[rows - 1]
    keep = np.ones(len(sequence), np.bool_)
    keep[rows[~is_news]] = False
    return images.only(keep)
