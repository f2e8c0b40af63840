"""The change_seq: 16 digits of time to hundredths of a second, and a number of 19 digits.

It is monotone for all tables of a task. Its time runs 0 to 3 s behind the change's timestamp.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from changeledger.kernels import clocks, octets
from changeledger.kernels.arrow import INSTANT, Bools, Bytes, numbers, valid

SEQ_DIGITS = 35
TIME_DIGITS = 16
_ZERO = ord("0")
_LONG = np.uint64(2**63 - 1)


class Sequences(NamedTuple):
    """n change_seqs: their digits as text (`0` for malformed ones), and which are well-formed."""

    digits: Bytes
    known: Bools

    @classmethod
    def of(cls, texts: pa.StringArray) -> Sequences:
        known = octets.lengths(texts) == SEQ_DIGITS
        some = texts if known.all() else texts.filter(pa.array(known))
        characters = octets.matrix(some, SEQ_DIGITS)
        are_digits = np.logical_and.reduce((characters >= _ZERO) & (characters <= _ZERO + 9), axis=1)
        known[known] = are_digits
        digits = np.full((len(texts), SEQ_DIGITS), _ZERO, np.uint8)
        digits[known] = characters[are_digits]
        return cls(digits, known)

    def ordinal(self) -> pa.Int64Array:
        """Returns the 19-digit numbers; NULL for a malformed change_seq, or above 63 bits."""
        ordinals = _number(self.digits[:, TIME_DIGITS:])
        fits = self.known & (ordinals <= _LONG)
        return pa.array(np.where(fits, ordinals, 0).astype(np.int64), mask=~fits)

    def micros(self) -> tuple[npt.NDArray[np.int64], Bools]:
        """Returns the times, in microseconds since 1970, and which of them are valid."""
        return clocks.micros(_number(self.digits[:, :TIME_DIGITS]).astype(np.int64))


def _number(digits: Bytes) -> npt.NDArray[np.uint64]:
    whole_numbers = np.zeros(len(digits), np.uint64)
    for at in range(digits.shape[1]):
        whole_numbers = whole_numbers * np.uint64(10) + (digits[:, at] - np.uint8(48)).astype(np.uint64)
    return whole_numbers


class Times(NamedTuple):
    """When n changes were committed.

    A time is suspect if the timestamp is missing or too early, or if the change_seq contradicts it.
    """

    committed_at: pa.TimestampArray
    is_suspect: Bools


def times(stamp: pa.TimestampArray, sequences: Sequences, is_load: Bools) -> Times:
    """Takes the timestamps, or else the times in change_seqs.

    Rows of the full load have no time and get the beginning of 1970.
    """
    micros = numbers(stamp)
    is_known = valid(stamp) & (micros >= clocks.FIRST_KNOWN)
    in_seq, has_seq = sequences.micros()
    committed_at = np.where(is_known, micros, np.where(has_seq, in_seq, 0))
    has_time = is_known | has_seq | is_load
    is_elsewhere = has_seq & clocks.in_another_zone(micros, in_seq)
    is_suspect = ~is_load & (~is_known | is_elsewhere)
    return Times(pa.array(committed_at, pa.int64(), mask=~has_time).view(INSTANT), is_suspect)
