"""Change masks: which columns a record says were touched.

A mask has one bit per ordinal. In `big` order the LAST byte holds ordinals 1 to 8, lowest bit first, as in
SQL Server's `__$update_mask` and in Qlik's hex text; in `little` order the FIRST byte does, as Qlik
describes its binary masks. Either may come without its zero bytes at the high end. A table may have over a
thousand columns, so a mask is cut into words of 60 bits: never one number.

A set of columns has the same form, `array<bigint>`, lowest ordinals first: sets compare word by word.

Expressions over many columns are written as SQL text, bound to their argument by a lambda: one call to the
JVM in place of several for each column.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F

from changeledger.change import literal
from changeledger.config import ByteOrder

WORD_BITS = 60
_WORD_DIGITS = WORD_BITS // 4


def width(highest_ordinal: int) -> int:
    """Bytes of a mask over ordinals 1..highest."""
    return (highest_ordinal + 7) // 8


def from_text(text: Column) -> Column:
    """The bytes of a mask written as hex; NULL where it is not hex.

    `0x` before it and an odd number of digits are legal: `B` is the byte 0B. Empty text is an empty mask.
    """
    return F.unhex(F.regexp_replace(text, "^0[xX]", ""))


def to_hex(mask: Column) -> Column:
    """Two upper-case digits a byte, in the order of the bytes."""
    return F.hex(mask)


def words(mask: Column, highest_ordinal: int, order: ByteOrder = "big") -> Column:
    """array<bigint> of a binary mask, lowest ordinals first; NULL where the mask is NULL.

    Zero bytes that were trimmed come back. Bits of the words beyond the highest ordinal stay;
    `highest_set` sees those beyond the words too.
    """
    size = _word_count(highest_ordinal) * _WORD_DIGITS
    # Padded and then cut on the left: a mask of whole bytes can have more digits than the words hold.
    digits = F.right(F.concat(F.lit("0" * size), _digits(mask, order)), F.lit(size))
    starts = range(size - _WORD_DIGITS + 1, 0, -_WORD_DIGITS)
    cut = (f"cast(conv(substring(digits, {at}, {_WORD_DIGITS}), 16, 10) as bigint)" for at in starts)
    return _bound(digits, "digits", f"array({', '.join(cut)})")


def highest_set(mask: Column, order: ByteOrder = "big") -> Column:
    """The highest ordinal whose bit is set, at any width; 0 where none is."""
    significant = F.regexp_replace(_digits(mask, order), "^0+", "")
    of_first = F.length(F.conv(F.left(significant, F.lit(1)), 16, 2))
    return F.when(significant == "", 0).otherwise((F.length(significant) - 1) * 4 + of_first)


def has(mask_words: Column, ordinal: int) -> Column:
    """Is the bit of that 1-based ordinal set?"""
    word, bit = divmod(ordinal - 1, WORD_BITS)
    return F.get(mask_words, F.lit(word)).bitwiseAND(F.lit(1 << bit)) != 0


def columns(mask_words: Column, ordinals: Mapping[str, int]) -> Column:
    """array<string>: the names whose bit is set, by their ordinals; NULL where the words are NULL.

    Most masks set few bits of a wide table, so a word without any is passed over.
    """
    by_word: dict[int, list[str]] = {}
    for name, ordinal in sorted(ordinals.items(), key=lambda item: item[1]):
        word, bit = divmod(ordinal - 1, WORD_BITS)
        one = f"if((get(words, {word}) & {1 << bit}L) != 0, {literal(name)}, NULL)"
        by_word.setdefault(word, []).append(one)
    names = (
        f"if((get(words, {word}) & {bits}L) = 0, array(), array_compact(array({', '.join(by_word[word])})))"
        for word, bits in enumerate(bits_of(ordinals.values()))
        if bits
    )
    return _bound(mask_words, "words", f"flatten(array({', '.join(names)}))")


def is_full(mask_words: Column, ordinals: Mapping[str, int]) -> Column:
    """Are the bits of all these columns set? NULL where the words are NULL."""
    every = (
        f"(get(words, {word}) & {bits}L) = {bits}L"
        for word, bits in enumerate(bits_of(ordinals.values()))
        if bits
    )
    return _bound(mask_words, "words", " AND ".join(("true", *every)))


def bits_of(ordinals: Iterable[int], highest_ordinal: int = 0) -> list[int]:
    """The words of a set that is known beforehand; as many as `words` gives for that highest ordinal."""
    known = tuple(ordinals)
    result = [0] * _word_count(max((*known, highest_ordinal), default=0))
    for ordinal in known:
        word, bit = divmod(ordinal - 1, WORD_BITS)
        result[word] |= 1 << bit
    return result


def is_in(ordinal: int, known: Sequence[int]) -> bool:
    """Is the ordinal in the set that these words are?"""
    word, bit = divmod(ordinal - 1, WORD_BITS)
    return bool(known[word] >> bit & 1)


def _word_count(highest_ordinal: int) -> int:
    return (highest_ordinal + WORD_BITS - 1) // WORD_BITS


def _digits(mask: Column, order: ByteOrder) -> Column:
    """The mask's hex digits with the lowest ordinals in the last digit."""
    digits = F.hex(mask)
    # Reversing the text also turns the two digits of each byte: they are turned back.
    return digits if order == "big" else F.regexp_replace(F.reverse(digits), "(.)(.)", "$2$1")


def _bound(value: Column, name: str, body: str) -> Column:
    """`body`, SQL text in which `name` stands for the value; evaluated once. NULL where the value is NULL."""
    function = F.expr(f"{name} -> if({name} IS NULL, NULL, {body})")
    return F.get(F.call_function("transform", F.array(value), function), F.lit(0))
