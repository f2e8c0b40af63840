"""Change masks in hex text (`kernels.masks`): which columns a message says were touched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from changeledger.kernels import binary_text, masks
from changeledger.kernels.arrow import Bools, valid
from changeledger.model.contract import ByteOrder


class Masks(NamedTuple):
    """The masks of n records: which are present and readable, and which columns (n x columns) they name."""

    known: Bools
    columns: Bools
    # Whether the mask has a bit beyond the last ordinal of the table.
    beyond: Bools

    @property
    def absent(self) -> Bools:
        """The columns (n x columns) that readable masks do not name."""
        absent: Bools = self.known[:, None] & ~self.columns
        return absent


def parse(text: str) -> bytes | None:
    """Returns the bytes of one mask, as `masks.from_texts` does."""
    digits = binary_text.without_0x(text)
    return binary_text.from_hex(digits if len(digits) % 2 == 0 else f"0{digits}")


def read(texts: pa.StringArray, ordinals: Sequence[int], order: ByteOrder = "big") -> Masks:
    """Reads masks over the columns with these 1-based ordinals. NULL and text that is no mask are unknown."""
    data, highest = masks.from_texts(texts), max(ordinals, default=0)
    flags = masks.bits(data, highest, order)[:, [ordinal - 1 for ordinal in ordinals]]
    return Masks(valid(data), flags, masks.highest_set(data, order) > highest)
