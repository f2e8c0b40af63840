"""Change masks: which columns a record says were touched. All functions work on many masks at once.

A mask has one bit per ordinal. In `big` order the LAST byte holds ordinals 1 to 8, lowest bit first, as in
SQL Server's `__$update_mask` and in hex text; in `little` order the FIRST byte does, as binary masks are
described elsewhere. Either may lack its zero bytes at the high end. A table may have over a thousand columns,
so a mask is never one number.

The columns touched in n rows are a matrix of n x highest flags, whose column 0 is ordinal 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.kernels import octets
from changeledger.kernels.arrow import Bools, Bytes, Indices, named_where, valid
from changeledger.model.contract import ByteOrder

# Longer masks are read one by one; SQL Server's type ends at 128 bytes.
_MOST_BYTES = 256
_HEX = r"^(0[xX])?[0-9a-fA-F]*$"


def width(highest: int) -> int:
    """Returns the number of bytes of a mask over ordinals 1..highest."""
    return (highest + 7) // 8


def from_texts(texts: pa.StringArray) -> pa.BinaryArray:
    """Decodes masks written as hex; NULL if a text is not hex.

    A leading `0x` and an odd number of digits are legal: `B` is the byte 0B. Empty text is an empty mask.
    """
    is_hex = pc.match_substring_regex(texts, _HEX)
    digits = pc.replace_substring_regex(pc.if_else(is_hex, texts, None), "^0[xX]", "")
    odd = pc.equal(pc.bit_wise_and(pc.binary_length(digits), 1), 1)
    even = pc.if_else(odd, pc.binary_join_element_wise("0", digits, ""), digits)
    known = valid(even)
    offsets, data = octets.parts(even)
    return octets.of_parts(offsets // 2, octets.of_hex(octets.NIBBLES[data]), known, pa.binary())


def to_hex(masks: pa.BinaryArray) -> pa.StringArray:
    """Formats masks as two upper-case hex digits per byte, in byte order."""
    offsets, data = octets.parts(masks)
    return octets.of_parts(offsets * 2, octets.to_hex(data), valid(masks), pa.string())


def bits(masks: pa.BinaryArray, highest: int, order: ByteOrder) -> Bools:
    """n x highest: the flags of ordinals 1..highest. Trimmed zero bytes are restored."""
    low_first = _low_first(masks, width(highest), order)
    flags: Bools = np.unpackbits(low_first, axis=1, bitorder="little")[:, :highest].astype(np.bool_)
    return flags


def highest_set(masks: pa.BinaryArray, order: ByteOrder) -> Indices:
    """n: the highest ordinal whose bit is set, at any width; 0 if no bit is set."""
    sizes = octets.lengths(masks)
    ordinals = np.zeros(len(masks), np.int64)
    most = min(int(sizes.max(initial=0)), _MOST_BYTES)
    flags = np.unpackbits(_low_first(masks, most, order), axis=1, bitorder="little")
    if flags.size:
        last = flags.shape[1] - np.argmax(flags[:, ::-1], axis=1)
        ordinals = np.where(flags.any(axis=1), last, 0)
    for row in np.flatnonzero(sizes > _MOST_BYTES):
        number = int.from_bytes(masks[int(row)].as_py(), order)
        ordinals[row] = number.bit_length()
    return ordinals


def columns(flags: Bools, ordinals: Sequence[int], names: Sequence[str], known: Bools) -> pa.ListArray:
    """Returns array<string> with the names whose flag is set; NULL for rows not `known`."""
    return named_where(flags[:, [ordinal - 1 for ordinal in ordinals]], names, known)


def of(ordinals: Sequence[int], highest: int) -> Bools:
    """Returns the flags of one set of ordinals."""
    flags = np.zeros(highest, np.bool_)
    flags[[ordinal - 1 for ordinal in ordinals]] = True
    return flags


def disagrees(flags: Bools, known: Bools, required: Bools, allowed: Bools) -> Bools:
    """n: which masks contradict their record: a required bit is clear, or a bit that is not allowed is set.

    `known`: the records with a readable mask; the others never contradict. `flags`, `required` and `allowed`
    are n x columns; what an operation requires and allows comes from the dialect, and from the images
    (`of_images`).
    """
    return any_set((required & ~flags) | (flags & ~allowed)) & known


def of_images(differing: Bools, compared: Bools) -> tuple[Bools, Bools]:
    """n x columns: the bits that an update requires and allows, given the columns in which its images differ.

    `compared`: the cells that are known in both images. The bits of all other cells may be set or clear.
    """
    return differing & compared, differing | ~compared


def of_key(rows: Bools, key: Bools) -> tuple[Bools, Bools]:
    """n x columns: the bits required and allowed if a mask in `rows` has exactly the bits of the key.

    `key`: flags of the key's columns. If there are none, any mask is allowed. So it is in all other rows.
    """
    others = ~rows[:, None] | (not key.any())
    return rows[:, None] & key, key | others


def any_set(flags: Bools) -> Bools:
    """n: which rows of n x highest have a flag set."""
    is_any_set: Bools = np.logical_or.reduce(flags, axis=1)
    return is_any_set


def _low_first(masks: pa.BinaryArray, size: int, order: ByteOrder) -> Bytes:
    """n x size: the masks' bytes, lowest ordinals first; zero where a mask has fewer bytes."""
    offsets, data = octets.parts(masks)
    rows, counts = len(masks), np.diff(offsets)
    if not rows or not size or not len(data):
        return np.zeros((rows, size), np.uint8)
    steps = np.arange(size)
    at = offsets[1:, None] - 1 - steps if order == "big" else offsets[:-1, None] + steps
    inside = steps < counts[:, None]
    return np.where(inside, data[np.where(inside, at, 0)], 0).astype(np.uint8)
