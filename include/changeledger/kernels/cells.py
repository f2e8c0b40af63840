"""Converts the decoded cells of a column to values of the column's type, a whole column at a time.

Cells in the common wire form are converted together. Any other cell is `unfit`, and its record is read by
itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.kernels import float_digits, octets, ranges, sql_text
from changeledger.kernels.arrow import Bools, Bytes, bitmap, numbers, valid
from changeledger.model.sql_type import SqlType

# State of a cell in an image: 0 if its value is known, else why it is not.
KNOWN, UNAVAILABLE, NOT_CAPTURED = 0, 1, 2

_BASE64 = np.full(256, 255, np.uint8)
for _at, _letter in enumerate(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"):
    _BASE64[_letter] = _at


class Cells(NamedTuple):
    """The cells of one column. `unfit`: values outside the type or in an uncommon form; None if all fit."""

    values: pa.Array
    unfit: Bools | None = None


FromTexts = Callable[[pa.StringArray], Cells]


def in_range(sql: SqlType, column: Cells) -> Cells:
    """Marks the cells as unfit, and NULL, whose value SQL Server's type does not have."""
    outside = ranges.outside(sql, column.values)
    if outside is None:
        return column
    values = pc.if_else(pa.array(outside), pa.scalar(None, column.values.type), column.values)
    return Cells(values, outside if column.unfit is None else outside | column.unfit)


def each(values: Sequence[Any], read: Callable[[Any], Any], kind: pa.DataType) -> Cells:
    """Reads each value with `read`. A value for which it returns None is unfit."""
    cells = pa.array([None if value is None else read(value) for value in values], kind)
    is_given = np.fromiter((value is not None for value in values), np.bool_, len(values))
    unfit = is_given & ~valid(cells)
    return Cells(cells, unfit if unfit.any() else None)


def one_by_one(read: sql_text.Reader, kind: pa.DataType) -> FromTexts:
    """Returns a conversion that calls the reader of a single text for each cell."""
    return lambda texts: each(texts.to_pylist(), read, kind)


def texts(values: Sequence[str | None]) -> pa.StringArray:
    """Returns the texts as an Arrow column, which they may already be."""
    return values if isinstance(values, pa.Array) else pa.array(values, pa.string())


def from_base64_decimals(texts: pa.StringArray, precision: int, scale: int, most_bytes: int) -> Cells:
    """Decodes base64 of unscaled, big-endian two's complement numbers to decimals.

    Numbers of more than `most_bytes`, or 16, bytes are unfit, and so are broken base64 and too many digits.
    """
    known = valid(texts)
    offsets, data = octets.parts(texts)
    lengths = np.diff(offsets)
    unscaled = np.zeros((len(texts), 16), np.uint8)
    unfit = known & ((lengths == 0) | (lengths % 4 != 0) | (lengths > 24))
    for length in np.unique(lengths[known & ~unfit]):
        rows = np.flatnonzero(known & (lengths == length))
        letters = data[offsets[rows][:, None] + np.arange(length)]
        pads = (letters[:, -1] == 61).astype(np.int64) + (letters[:, -2] == 61)
        letters[:, -1][pads >= 1] = letters[:, -2][pads == 2] = 65
        values = _BASE64[letters]
        bad = (values == 255).any(axis=1) | (length // 4 * 3 - pads > min(most_bytes, 16))
        _put(unscaled, rows, _octets(values), pads)
        unfit[rows[bad]] = True
    too_large = _beyond(unscaled, precision) & known
    unfit |= too_large
    kind = pa.decimal128(precision, scale)
    known &= ~unfit
    buffers = [bitmap(known), pa.py_buffer(np.ascontiguousarray(unscaled[:, ::-1]))]
    return Cells(pa.Array.from_buffers(kind, len(texts), buffers), unfit if unfit.any() else None)


def _octets(values: Bytes) -> Bytes:
    """Converts the 6-bit values of base64, in groups of four, to bytes."""
    a, b, c, d = (values[:, at::4] for at in range(4))
    octets = np.empty((len(values), values.shape[1] // 4 * 3), np.uint8)
    octets[:, ::3] = a << 2 | b >> 4
    octets[:, 1::3] = b << 4 | c >> 2
    octets[:, 2::3] = c << 6 | d
    return octets


def _put(unscaled: Bytes, rows: Any, octets: Bytes, pads: Any) -> None:
    """Writes the numbers in `octets`, less their last `pads` bytes, right-aligned and sign-extended."""
    for pad in range(3):
        mine = pads == pad
        if not mine.any():
            continue
        width = min(octets.shape[1] - pad, 16)
        number = octets[mine][:, : octets.shape[1] - pad][:, -width:]
        wide = np.where(number[:, :1] >= 128, 255, 0).astype(np.uint8).repeat(16, axis=1)
        wide[:, 16 - width :] = number
        unscaled[rows[mine]] = wide


def _beyond(unscaled: Bytes, precision: int) -> Bools:
    """Returns which 16-byte, big-endian two's complement numbers have more digits than `precision`."""
    words = unscaled.view(">u8").astype(np.uint64)
    high, low = words[:, 0].copy(), words[:, 1].copy()
    negative = high >> np.uint64(63) == 1
    # -x is the complement of x - 1.
    carry = negative & (low == 0)
    low = np.where(negative, ~low + np.uint64(1), low)
    high = np.where(negative, ~high + carry.astype(np.uint64), high)
    limit = 10**precision
    most_high, most_low = np.uint64(limit >> 64), np.uint64(limit & (2**64 - 1))
    beyond: Bools = (high > most_high) | ((high == most_high) & (low >= most_low))
    return beyond


def times(counts: pa.Int64Array, nanos: int, digits: int) -> pa.StringArray:
    """Formats counts of units of `nanos` nanoseconds since midnight as `16:25:00.883`, to `digits` digits."""
    of_day = pc.cast(pc.multiply(counts, nanos), pa.time64("ns"))
    return pc.utf8_slice_codeunits(pc.cast(of_day, pa.string()), 0, 9 + digits if digits else 8)


def timestamps(counts: pa.Int64Array, micros: int) -> pa.Array:
    """Converts counts of units of `micros` microseconds since 1970 to timestamps."""
    return pc.cast(pc.multiply(counts, micros) if micros > 1 else counts, pa.timestamp("us"))


def nanosecond_texts(counts: pa.Int64Array) -> pa.StringArray:
    """Formats nanoseconds since 1970 as `2026-08-07 16:25:00.8833333`."""
    return pc.utf8_slice_codeunits(pc.cast(pc.cast(counts, pa.timestamp("ns")), pa.string()), 0, 27)


def reals(values: Sequence[Any]) -> Cells:
    """Narrows 64-bit numbers to 32 bits; unfit where only its text tells which `real` a number is, if any."""
    wide = pa.array(values, pa.float64())
    raw = numbers(wide)
    with np.errstate(over="ignore"):
        narrow = raw.astype(np.float32)
    known = valid(wide)
    unfit = known & ~np.isfinite(narrow)
    array = pa.Array.from_buffers(pa.float32(), len(values), [bitmap(known), pa.py_buffer(narrow)])
    unfit |= float_digits.rounded(wide, array)
    return Cells(array, unfit if unfit.any() else None)
