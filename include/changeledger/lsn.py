"""Log sequence numbers: 10 bytes, big-endian, compared as unsigned bytes (which Spark's binary order is).

As text an LSN is `0x0000002A000003B00005`, bare hex, or 8:8:4 groups `0000002a:000003b0:0005`, in any
case; the word NULL stands for none.
"""

from __future__ import annotations

import re

from pyspark.sql import Column
from pyspark.sql import functions as F

WIDTH = 10
LOWEST = "00" * WIDTH
HIGHEST = "FF" * WIDTH

_TEXT = re.compile(r"^(?:0[xX])?([0-9a-fA-F]{20})$|^([0-9a-fA-F]{8}):([0-9a-fA-F]{8}):([0-9a-fA-F]{4})$")


def parse(text: str) -> bytes:
    """One LSN from text, on the driver. Raises ValueError."""
    match = _TEXT.match(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a log sequence number")
    return bytes.fromhex(match[1] or match[2] + match[3] + match[4])


def from_text(text: Column) -> Column:
    """binary(10), or NULL where `text` is not an LSN (or says NULL). See `is_absent` for the difference."""
    # Lengths in bytes, which are known: a digit has one, and anything else is no digit to `unhex`.
    length = F.octet_length(text)
    grouped = (length == 22) & (F.locate(":", text) == 9) & (F.locate(":", text, 10) == 18)
    prefixed = (length == 22) & text.startswith("0") & (F.lower(F.substring(text, 1, 2)) == "0x")
    digits = (
        F.when(length == 2 * WIDTH, text)
        .when(grouped, F.replace(text, F.lit(":"), F.lit("")))
        .when(prefixed, F.substring(text, 3, 2 * WIDTH))
    )
    return F.when(F.octet_length(digits) == 2 * WIDTH, F.unhex(digits))


def is_absent(text: Column) -> Column:
    """True where the source says that there is no LSN, rather than a broken one."""
    return text.isNull() | (F.upper(text) == "NULL")


def big_endian(number: Column, width: int) -> Column:
    """A non-negative integer as `width` bytes, so that byte order is number order."""
    return F.unhex(F.lpad(F.hex(number.cast("bigint")), 2 * width, "0"))


def to_text(lsn: Column) -> Column:
    """20 upper-case hex digits."""
    return F.hex(lsn)


def constant(hex_digits: str) -> Column:
    return F.unhex(F.lit(hex_digits))
