"""Parses times as Qlik's sources write them: ISO text, in UTC if it has no zone, or a number.

The size of a number tells its unit. A number below 10^9, an empty text and a date of 1970 are no time:
sources that do not know the time write one at the beginning of 1970. Results are microseconds since 1970.
"""

from __future__ import annotations

import re

from changeledger.kernels import clocks, sql_text
from changeledger.kernels.sql_text import MICROS

_LONG = 2**63 - 1
_ISO = re.compile(
    r"(\d{4}-\d{2}-\d{2})[T ](\d{2}):(\d{2})(?::(\d{2})(?:[.](\d{0,9}))?)? ?"
    r"(Z|UTC|GMT|[+-]\d{1,2}(?::?\d{2})?)?\Z",
    re.ASCII,
)
_DATE_OF_1970 = re.compile(r"1970-\d{2}-\d{2}\Z", re.ASCII)


def instant(text: str) -> int | None:
    """Parses a time. Returns 0 if the text says that there is none, and None if it is not a time at all."""
    text = text.strip() if text.strip() else text
    micros = _iso(text)
    if micros is None:
        micros = _counted(text)
    if micros is None and _is_none(text):
        return 0
    return micros


def known(text: str | None) -> int | None:
    """Parses a time. Returns None if the text states no time."""
    micros = None if text is None else instant(text)
    return micros if micros is not None and micros >= clocks.FIRST_KNOWN else None


def _iso(text: str) -> int | None:
    match = _ISO.match(text)
    if match is None:
        return None
    minutes = _zone(match[6])
    if minutes is None:
        return None
    return clocks.instant(f"{match[1]}T{match[2]}:{match[3]}:{match[4] or '00'}", match[5], minutes)


def _zone(text: str | None) -> int | None:
    """Returns minutes east of UTC; None for an impossible zone, such as one over 18 hours from UTC."""
    if text is None or text[0] not in "+-":
        return 0
    digits = text[1:].replace(":", "")
    hours, minutes = (int(digits), 0) if len(digits) <= 2 else (int(digits[:-2]), int(digits[-2:]))
    east = hours * 60 + minutes
    if minutes > 59 or east > 18 * 60:
        return None
    return -east if text[0] == "-" else east


def _counted(text: str) -> int | None:
    number = sql_text.whole(text, -_LONG - 1, _LONG)
    if number is None or number < 10**9:
        return None
    if number >= 10**18:
        micros = number // 1000
    elif number >= 10**15:
        micros = number
    else:
        micros = number * (1000 if number >= 10**12 else 10**6)
    return micros if micros <= MICROS[1] else None


def _is_none(text: str) -> bool:
    if not text or _DATE_OF_1970.match(text):
        return True
    number = sql_text.decimal(text, 38, 6)
    return number is not None and number < 10**9


def of_sequence(sequence: str) -> int | None:
    """Returns the time in a change sequence, year to hundredths. It can be seconds off the commit."""
    day, clock = f"{sequence[:4]}-{sequence[4:6]}-{sequence[6:8]}", sequence[8:14]
    return _iso(f"{day}T{clock[:2]}:{clock[2:4]}:{clock[4:]}.{sequence[14:16]}")
