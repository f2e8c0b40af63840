"""Log sequence numbers: 10 bytes, big-endian, compared as unsigned bytes.

As text an LSN is `0x0000002A000003B00005`, bare hex, or 8:8:4 groups `0000002a:000003b0:0005`, in any case.
The word NULL and ten zero bytes mean that there is no LSN. SQL Server's own functions return the zeros
(Microsoft's page "sys.fn_cdc_get_min_lsn"); as a position they would sort before every change.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.kernels import octets
from changeledger.kernels.arrow import Bools, Bytes, fixed_width, flags_of, numbers, valid
from changeledger.kernels.binary_text import from_hex

WIDTH = 10
_GROUPED = 22
# No further hex digit follows the digits of either form.
_LEADING_GROUPED = r"^[0-9A-Fa-f]{8}:[0-9A-Fa-f]{8}:[0-9A-Fa-f]{4}([^0-9A-Fa-f]|$)"
_LEADING_BARE = r"^[0-9A-Fa-f]{20}([^0-9A-Fa-f]|$)"
_COLON = ord(":")
# The common forms: length, and positions of the digits; colons elsewhere.
_FORMS = ((_GROUPED, np.r_[0:8, 9:17, 18:22]), (2 * WIDTH, np.arange(2 * WIDTH)))


class Lsns(NamedTuple):
    """LSNs of n rows: a matrix of n x 10 bytes, and which rows have an LSN."""

    digits: Bytes
    known: Bools

    def array(self) -> pa.Array:
        return fixed_width(self.digits, self.known)


def parse(text: str) -> bytes | None:
    """Parses one LSN. Returns None if the text is not an LSN, or is ten zero bytes."""
    value = _octets(text)
    return value if value is not None and any(value) else None


def _octets(text: str) -> bytes | None:
    if len(text) == _GROUPED and text[8] == ":" == text[17]:
        text = text.replace(":", "")
    elif text[:2].lower() == "0x":
        text = text[2:]
    return from_hex(text) if len(text) == 2 * WIDTH else None


def is_absent(text: str | None) -> bool:
    """Returns whether the source says that there is no LSN, as opposed to a broken one."""
    return text is None or text.upper() == "NULL" or _octets(text) == bytes(WIDTH)


def parse_all(texts: pa.StringArray) -> Lsns:
    """Parses a column of texts. NULL, and texts for which `parse` returns None, are unknown."""
    known, rows = valid(texts), len(texts)
    parsed = np.zeros((rows, WIDTH), np.uint8)
    others = known.copy()
    for length, digits in _FORMS:
        has_length = flags_of(pc.equal(pc.binary_length(texts), length))
        at = np.flatnonzero(has_length)
        if not len(at):
            continue
        matrix = octets.matrix(texts if len(at) == rows else texts.filter(pa.array(has_length)), length)
        nibbles = octets.NIBBLES[matrix[:, digits]]
        colons = np.delete(matrix, digits, axis=1)
        fits = (nibbles < 16).all(axis=1) & (colons == _COLON).all(axis=1) & nibbles.any(axis=1)
        parsed[at] = octets.of_hex(nibbles)
        others[at] = ~fits
    for row in np.flatnonzero(others):
        lsn = parse(texts[int(row)].as_py())
        known[row] = lsn is not None
        parsed[row] = np.frombuffer(lsn or bytes(WIDTH), np.uint8)
    return Lsns(parsed, known)


def leading(texts: pa.StringArray) -> Lsns:
    """Parses the LSN, in 8:8:4 groups or bare hex, that each text begins with; unknown if it does not."""
    first = pa.scalar(None, pa.string())
    for pattern, length in ((_LEADING_GROUPED, _GROUPED), (_LEADING_BARE, 2 * WIDTH)):
        begins = pc.match_substring_regex(texts, pattern)
        first = pc.if_else(begins, pc.utf8_slice_codeunits(texts, 0, length), first)
    return parse_all(first)


def of_bytes(values: pa.BinaryArray) -> Lsns:
    """Reads a column of bytes. NULL, bytes of another width, and zeros are unknown."""
    known = octets.lengths(values) == WIDTH
    digits = np.zeros((len(values), WIDTH), np.uint8)
    if known.any():
        digits[known] = octets.matrix(values if known.all() else values.filter(pa.array(known)), WIDTH)
    return Lsns(digits, known & digits.any(axis=1))


def unknown(rows: int) -> Lsns:
    """Returns unknown LSNs for all rows."""
    return Lsns(np.zeros((rows, WIDTH), np.uint8), np.zeros(rows, np.bool_))


def to_text(lsns: Lsns) -> pa.StringArray:
    """Formats LSNs as 20 upper-case hex digits."""
    return fixed_width(octets.to_hex(lsns.digits), lsns.known, pa.string())


def big_endian(values: npt.NDArray[Any], width: int) -> Bytes:
    """Encodes non-negative integers in `width` (8 or more) bytes, so that byte order is number order."""
    wide = np.zeros((len(values), width), np.uint8)
    wide[:, width - 8 :] = values.astype(">i8").view(np.uint8).reshape(-1, 8)
    return wide


def of_integers(values: pa.Int64Array) -> Lsns:
    """Encodes 64-bit positions of other databases, padded on the left."""
    return Lsns(big_endian(numbers(values), WIDTH), valid(values))
