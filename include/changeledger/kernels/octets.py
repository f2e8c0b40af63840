"""Converts between text or binary columns and numpy arrays of their octets."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.kernels.arrow import Bools, Bytes, Indices, bitmap

# The value of each octet as a hex digit; 255 if it is not one.
NIBBLES = np.full(256, 255, np.uint8)
for _digit in b"0123456789abcdefABCDEF":
    NIBBLES[_digit] = int(chr(_digit), 16)
_DIGITS = np.frombuffer(b"0123456789ABCDEF", np.uint8)


def parts(array: pa.Array) -> tuple[npt.NDArray[np.int64], Bytes]:
    """Returns the offsets (from 0) and the data of a text or binary column; NULL has no octets."""
    if array.null_count:
        array = pc.fill_null(array, pa.scalar(b"", array.type))
    raw = array.buffers()
    offsets = np.frombuffer(raw[1], np.int32)[array.offset : array.offset + len(array) + 1].astype(np.int64)
    data = np.frombuffer(raw[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
    return offsets - offsets[0], data


def of_parts(offsets: npt.NDArray[np.int64], data: Bytes, known: Bools, kind: pa.DataType) -> pa.Array:
    """Builds a string or binary array from its `parts`."""
    buffers = [
        bitmap(known),
        pa.py_buffer(offsets.astype(np.int32)),
        pa.py_buffer(np.ascontiguousarray(data)),
    ]
    return pa.Array.from_buffers(kind, len(known), buffers)


def lengths(values: pa.Array) -> Indices:
    """Returns the number of octets of each value; 0 for NULL."""
    offsets, _ = parts(values)
    return np.diff(offsets)


def matrix(values: pa.Array, width: int) -> Bytes:
    """n x width: the octets of values that all have `width` of them."""
    _, data = parts(values)
    return data.reshape(len(values), width)


def of_hex(nibbles: Bytes) -> Bytes:
    """Combines the `NIBBLES` of each row, an even number, to octets."""
    octets: Bytes = (nibbles[..., ::2] << 4 | nibbles[..., 1::2] & 15).astype(np.uint8)
    return octets


def to_hex(octets: Bytes) -> Bytes:
    """Returns two upper-case hex digits for each octet."""
    digits = np.empty((*octets.shape[:-1], 2 * octets.shape[-1]), np.uint8)
    digits[..., ::2], digits[..., 1::2] = _DIGITS[octets >> 4], _DIGITS[octets & 15]
    return digits
