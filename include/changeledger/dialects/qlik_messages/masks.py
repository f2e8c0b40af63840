"""Change masks in hex text: which columns a record says were touched.

A mask has one bit per ordinal. In `big` order the LAST byte holds ordinals 1 to 8, lowest bit first, as in
SQL Server's `__$update_mask` and in Qlik's hex text; in `little` order the FIRST byte does, as Qlik
describes its binary masks. Either may come without its zero bytes at the high end. A table may have over a
thousand columns, so a mask is one number of any width, and never of 64 bits. Few masks of a batch differ:
each is read once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.kernels.arrow import Bools
from changeledger.model.byte_order import ByteOrder


class Masks(NamedTuple):
    """Of n records which masks are there and readable, and which columns (n x columns) they name."""

    known: Bools
    columns: Bools
    # Has the mask a bit beyond the last ordinal of the table?
    beyond: Bools


def parse(text: str) -> bytes | None:
    """The bytes of a mask; None if it is not hex.

    `0x` before it and an odd number of digits are legal: `B` is the byte 0B. Empty text is an empty mask.
    """
    digits = text[2:] if text[:2].lower() == "0x" else text
    if not digits.isascii() or (digits and not digits.isalnum()):
        return None
    try:
        return bytes.fromhex(digits if len(digits) % 2 == 0 else f"0{digits}")
    except ValueError:
        return None


def read(texts: pa.StringArray, ordinals: Sequence[int], order: ByteOrder = "big") -> Masks:
    """The masks of a column, over the columns of these 1-based ordinals. Unknown: NULL, or no mask."""
    encoded = pc.dictionary_encode(texts, null_encoding="encode")
    distinct = [None if text is None else parse(text) for text in encoded.dictionary.to_pylist()]
    numbers = [None if mask is None else int.from_bytes(mask, order) for mask in distinct]
    named = [[number is not None and number >> (o - 1) & 1 == 1 for o in ordinals] for number in numbers]
    highest = max(ordinals, default=0)
    rows = encoded.indices.to_numpy(zero_copy_only=False)
    return Masks(
        np.array([bits is not None for bits in numbers], np.bool_)[rows],
        np.array(named, np.bool_).reshape(len(numbers), len(ordinals))[rows],
        np.array([bits is not None and bits.bit_length() > highest for bits in numbers], np.bool_)[rows],
    )
