"""Change masks: which columns a record says were touched.

SQL Server's `__$update_mask` has one bit per capture ordinal, ordinal 1 in the lowest bit of the LAST
byte. A table may have over a thousand columns, so a mask is cut into words of 60 bits: never one number.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

_WORD_BITS = 60
_WORD_DIGITS = _WORD_BITS // 4


def width(highest_ordinal: int) -> int:
    """Bytes of a mask over ordinals 1..highest."""
    return (highest_ordinal + 7) // 8


def words(mask: Column, highest_ordinal: int) -> Column:
    """array<bigint>, lowest bits first, from a binary mask whose last byte holds ordinals 1..8."""
    count = (highest_ordinal + _WORD_BITS - 1) // _WORD_BITS
    # Padded and then cut on the left: a mask of whole bytes can have more digits than the words hold.
    digits = F.right(F.concat(F.lit("0" * count * _WORD_DIGITS), F.hex(mask)), F.lit(count * _WORD_DIGITS))
    starts = range((count - 1) * _WORD_DIGITS + 1, 0, -_WORD_DIGITS)
    return F.array(*(F.conv(F.substring(digits, at, _WORD_DIGITS), 16, 10).cast("bigint") for at in starts))


def has(mask_words: Column, ordinal: int) -> Column:
    """Is the bit of that 1-based ordinal set?"""
    word, bit = divmod(ordinal - 1, _WORD_BITS)
    return F.get(mask_words, F.lit(word)).bitwiseAND(F.lit(1 << bit)) != 0


def columns(mask_words: Column, ordinals: dict[str, int]) -> Column:
    """array<string>: the names whose bit is set, in the order given."""
    return F.array_compact(F.array(*(F.when(has(mask_words, o), F.lit(n)) for n, o in ordinals.items())))


def is_full(mask_words: Column, ordinals: dict[str, int]) -> Column:
    """Are the bits of all these columns set, as inserts and deletes have them?"""
    full: dict[int, int] = {}
    for ordinal in ordinals.values():
        word, bit = divmod(ordinal - 1, _WORD_BITS)
        full[word] = full.get(word, 0) | 1 << bit
    result = F.lit(True)
    for word, bits in full.items():
        result = result & (F.get(mask_words, F.lit(word)).bitwiseAND(F.lit(bits)) == F.lit(bits))
    return result
