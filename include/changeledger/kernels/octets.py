"""Columns of texts and bytes as the octets in them, of which numpy makes others."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.kernels.arrow import Bools, Bytes, Indices, bitmap

# Of a letter the value of the hex digit that it is; 255 for any other.
NIBBLES = np.full(256, 255, np.uint8)
for _digit in b"0123456789abcdefABCDEF":
    NIBBLES[_digit] = int(chr(_digit), 16)
_DIGITS = np.frombuffer(b"0123456789ABCDEF", np.uint8)


def parts(array: pa.Array) -> tuple[npt.NDArray[np.int64], Bytes]:
    """Offsets from 0 and data of texts or bytes; nothing stands for NULL."""
    if array.null_count:
        array = pc.fill_null(array, pa.scalar(b"", array.type))
    raw = array.buffers()
    offsets = np.frombuffer(raw[1], np.int32)[array.offset : array.offset + len(array) + 1].astype(np.int64)
    data = np.frombuffer(raw[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
    return offsets - offsets[0], data


def of_parts(offsets: npt.NDArray[np.int64], data: Bytes, known: Bools, kind: pa.DataType) -> pa.Array:
    """The array (string or binary) of which these are the `parts`."""
    buffers = [
        bitmap(known),
        pa.py_buffer(offsets.astype(np.int32)),
        pa.py_buffer(np.ascontiguousarray(data)),
    ]
    return pa.Array.from_buffers(kind, len(known), buffers)


def lengths(values: pa.Array) -> Indices:
    """Octets of each value; 0 for NULL."""
    offsets, _ = parts(values)
    return np.diff(offsets)


def matrix(values: pa.Array, width: int) -> Bytes:
    """n x width: values that all have that many octets."""
    _, data = parts(values)
    return data.reshape(len(values), width)


def of_hex(nibbles: Bytes) -> Bytes:
    """The octets of an even number of `NIBBLES` in each row."""
    octets: Bytes = (nibbles[..., ::2] << 4 | nibbles[..., 1::2] & 15).astype(np.uint8)
    return octets


def to_hex(octets: Bytes) -> Bytes:
    """Two upper-case digits for each octet of a row."""
    digits = np.empty((*octets.shape[:-1], 2 * octets.shape[-1]), np.uint8)
    digits[..., ::2], digits[..., 1::2] = _DIGITS[octets >> 4], _DIGITS[octets & 15]
    return digits
