"""Log sequence numbers: 10 bytes, big-endian, compared as unsigned bytes.

As text an LSN is `0x0000002A000003B00005`, bare hex, or 8:8:4 groups `0000002a:000003b0:0005`, in any case;
the word NULL stands for none (docs/sources.md).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.kernels.arrow import Bools, Bytes, fixed_width, numbers, valid

WIDTH = 10
_GROUPED = 22
# Of a byte the value of the hex digit that it is; 255 for any other.
_NIBBLES = np.full(256, 255, np.uint8)
for _digit in b"0123456789abcdefABCDEF":
    _NIBBLES[_digit] = int(chr(_digit), 16)
_DIGITS = np.frombuffer(b"0123456789ABCDEF", np.uint8)
_COLON = ord(":")
# Of the usual forms the length, and where the digits are; colons elsewhere.
_FORMS = ((_GROUPED, np.r_[0:8, 9:17, 18:22]), (2 * WIDTH, np.arange(2 * WIDTH)))


class Lsns(NamedTuple):
    """LSNs of some rows: a matrix of 10 bytes a row, and which rows have one."""

    digits: Bytes
    known: Bools

    def array(self) -> pa.Array:
        return fixed_width(self.digits, self.known, pa.binary())


def parse(text: str) -> bytes | None:
    """One LSN; None if the text is none."""
    if len(text) == _GROUPED and text[8] == ":" == text[17]:
        text = text.replace(":", "")
    elif len(text) == _GROUPED and text[:2].lower() == "0x":
        text = text[2:]
    # fromhex would take white space for nothing.
    if len(text) != 2 * WIDTH or not text.isascii() or not text.isalnum():
        return None
    try:
        return bytes.fromhex(text)
    except ValueError:
        return None


def is_absent(text: str | None) -> bool:
    """Does the source say that there is no LSN, rather than write a broken one?"""
    return text is None or text.upper() == "NULL"


def parse_all(texts: pa.StringArray) -> Lsns:
    """The LSNs of a column of texts. Unknown: NULL, or no LSN."""
    known, rows = valid(texts), len(texts)
    octets = np.zeros((rows, WIDTH), np.uint8)
    others = known.copy()
    for length, digits in _FORMS:
        has_length = pc.fill_null(pc.equal(pc.binary_length(texts), length), fill_value=False)
        at = np.flatnonzero(has_length.to_numpy(zero_copy_only=False))
        if not len(at):
            continue
        matrix = _matrix(texts if len(at) == rows else texts.filter(has_length), length)
        nibbles = _NIBBLES[matrix[:, digits]]
        colons = np.delete(matrix, digits, axis=1)
        fits = (nibbles < 16).all(axis=1) & (colons == _COLON).all(axis=1)
        octets[at] = nibbles[:, ::2] << 4 | (nibbles[:, 1::2] & 15)
        others[at] = ~fits
    for row in np.flatnonzero(others):
        lsn = parse(texts[int(row)].as_py())
        known[row] = lsn is not None
        octets[row] = np.frombuffer(lsn or bytes(WIDTH), np.uint8)
    return Lsns(octets, known)


def _matrix(texts: pa.StringArray, length: int) -> Bytes:
    """The bytes of texts that are all so long, a row each."""
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1]
    data = np.frombuffer(texts.buffers()[2], np.uint8)[offsets[0] : offsets[-1]]
    return data.reshape(len(texts), length)


def to_text(lsns: Lsns) -> pa.StringArray:
    """20 upper-case hex digits."""
    digits = np.empty((len(lsns.digits), 2 * WIDTH), np.uint8)
    digits[:, ::2] = _DIGITS[lsns.digits >> 4]
    digits[:, 1::2] = _DIGITS[lsns.digits & 15]
    return fixed_width(digits, lsns.known, pa.string())


def big_endian(values: npt.NDArray[Any], width: int) -> Bytes:
    """Non-negative integers as `width` (8 or more) bytes each, so that byte order is number order."""
    octets = np.zeros((len(values), width), np.uint8)
    octets[:, width - 8 :] = values.astype(">i8").view(np.uint8).reshape(-1, 8)
    return octets


def of_integers(values: pa.Int64Array) -> Lsns:
    """64-bit positions of other databases, padded on the left."""
    return Lsns(big_endian(numbers(values), WIDTH), valid(values))
