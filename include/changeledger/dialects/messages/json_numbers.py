"""Decimals as JSON numbers: a writer that holds them as doubles has lost digits."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

# What a double keeps of a decimal, whatever the digits are; and how many of its digits a writer prints.
_EXACT_DIGITS, _PRINTED_DIGITS = 15, 17
INEXACT = f"a decimal of more than {_EXACT_DIGITS} digits as a JSON number; have it written as text"


def is_inexact(token: Any) -> bool:
    """Could a decimal have lost digits as a double? A text and a whole number are exact."""
    return len(_digits(token)) > _EXACT_DIGITS


def is_printed_double(token: Any) -> bool:
    """Is it such a number, with no more digits than are printed of a double?"""
    return _EXACT_DIGITS < len(_digits(token).rstrip(b"0")) <= _PRINTED_DIGITS


def _digits(token: Any) -> bytes:
    """Those of a number with a point or an exponent that may be too many; none of anything else."""
    if token is None or token is UNSET:
        return b""
    written = bytes(token)
    if len(written) <= _EXACT_DIGITS or written[:1] == b'"':
        return b""
    mantissa, exponent, _ = written.lower().partition(b"e")
    if not exponent and b"." not in mantissa:
        return b""
    return mantissa.lstrip(b"-").replace(b".", b"").lstrip(b"0")
