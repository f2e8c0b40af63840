"""Detects decimals in JSON numbers that may have lost digits in a writer that holds them as doubles."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

# Digits of a decimal that a double keeps, whatever they are, and digits that a writer prints at most.
_EXACT_DIGITS, _PRINTED_DIGITS = 15, 17
INEXACT = f"a decimal of more than {_EXACT_DIGITS} digits as a JSON number; have it written as text"


def is_inexact(token: Any) -> bool:
    """Returns whether a decimal may have lost digits as a double. Text and whole numbers are exact."""
    return len(_digits(token)) > _EXACT_DIGITS


def is_printed_double(token: Any) -> bool:
    """Returns whether a number is inexact and has no more digits than a writer prints of a double."""
    return _EXACT_DIGITS < len(_digits(token).rstrip(b"0")) <= _PRINTED_DIGITS


def _digits(token: Any) -> bytes:
    """Returns the digits of a number with a point or an exponent that may have too many, else nothing."""
    if token is None or token is UNSET:
        return b""
    written = bytes(token)
    if len(written) <= _EXACT_DIGITS or written[:1] == b'"':
        return b""
    mantissa, exponent, _ = written.lower().partition(b"e")
    if not exponent and b"." not in mantissa:
        return b""
    return mantissa.lstrip(b"-").replace(b".", b"").lstrip(b"0")
