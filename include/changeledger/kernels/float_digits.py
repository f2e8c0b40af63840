"""Tells whether a floating point number is what a text says, or a rounded version of it.

A writer prints a number of its own type with as many digits as it likes: the fewest that identify it, 9 or
17, or all of them. Such a text differs from its number by less than one unit of its last digit. The text of
another type may have more digits than the number keeps: 16777217 is not a `real`, and 9007199254740993 not a
`float`.
"""

from __future__ import annotations

from decimal import Context, Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.kernels.arrow import Bools, flags_of, valid

# The digits that a number always keeps, and the digits that identify every number.
_SURE = {pa.float32(): 6, pa.float64(): 15}
_TELLING = {pa.float32(): 9, pa.float64(): 17}
# More digits than any difference that counts has.
_EXACT = Context(prec=1100)


def is_kept(text: str, number: float, kind: pa.DataType) -> bool:
    """Returns whether `number`, the nearest one, keeps all digits that the text says.

    The text has digits, and optionally a sign, a point and an exponent.
    """
    written = Decimal(text)
    if not written or not number:
        return not written
    _, digits, exponent = written.as_tuple()
    zeros = len(digits) - len("".join(map(str, digits)).rstrip("0"))
    if len(digits) - zeros <= _SURE[kind]:
        return True
    distance = _EXACT.abs(_EXACT.subtract(written, Decimal(number)))
    return distance < Decimal(1).scaleb(int(exponent) + zeros)


def doubtful(texts: pa.StringArray, values: pa.Array) -> Bools:
    """Returns which numbers may be rounded: their texts have many digits, in none of the common forms."""
    digits = _significant(texts)
    is_zero = pc.and_(pc.equal(values, pa.scalar(0.0, values.type)), pc.not_equal(digits, ""))
    is_sure = pc.less_equal(pc.binary_length(digits), _SURE[values.type])
    is_usual = pc.or_(is_sure, pc.equal(digits, _significant(pc.cast(values, pa.string()))))
    is_doubtful: Bools = valid(values) & ~flags_of(is_usual)
    rows = np.flatnonzero(is_doubtful)
    if len(rows):
        at = pa.array(rows)
        is_doubtful[rows] = ~flags_of(_is_in_full(digits.take(at), values.take(at)))
    return is_doubtful | flags_of(is_zero)


def rounded(wide: pa.Array, narrow: pa.Array) -> Bools:
    """Returns which 64-bit numbers neither equal their 32-bit number nor have its fewest digits."""
    is_other = flags_of(pc.not_equal(wide, pc.cast(narrow, pa.float64())))
    rows = np.flatnonzero(is_other)
    if len(rows):
        texts = [pc.cast(numbers.take(pa.array(rows)), pa.string()) for numbers in (wide, narrow)]
        is_other[rows] = ~flags_of(pc.equal(*map(_significant, texts)))
    return is_other


def _is_in_full(digits: pa.StringArray, values: pa.Array) -> pa.BooleanArray:
    """Returns whether digits are those of a number in full, or of a 32-bit number as a 64-bit one."""
    places = _TELLING[values.type] - 1
    in_full = pa.array([f"{value:.{places}e}" for value in values.to_pylist()], pa.string())
    is_same = pc.equal(digits, _significant(in_full))
    if pa.types.is_float32(values.type):
        widened = pc.cast(pc.cast(values, pa.float64()), pa.string())
        is_same = pc.or_(is_same, pc.equal(digits, _significant(widened)))
    return is_same


def _significant(texts: pa.StringArray) -> pa.StringArray:
    """Returns the digits of numbers, without zeros at either end."""
    return pc.utf8_trim(pc.replace_substring_regex(texts, "[eE].*|[-+.]", ""), "0")
