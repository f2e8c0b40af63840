"""Decodes bytes that are written as text: hex digits or base64."""

from __future__ import annotations

import re
from binascii import Error, a2b_base64
from collections.abc import Callable

from changeledger.model.sql_type import SqlType

Reader = Callable[[str], bytes | None]
# Base64 may have spaces anywhere and may lack its padding, as in Spark's `to_binary`.
_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}\Z")
_WITH_SPACES = re.compile(r"[A-Za-z0-9+/=\s]*\Z")
_SPACES = re.compile(r"\s+")
_HEX_DIGITS = re.compile(r"(?:[0-9A-F]{16,}|[0-9a-f]{16,})\Z")


def from_hex(text: str) -> bytes | None:
    """Decodes hex digits in any case, two per byte. Returns None for any other text."""
    if len(text) % 2 or not text.isascii() or (text and not text.isalnum()):
        return None
    try:
        return bytes.fromhex(text)
    except ValueError:
        return None


def without_0x(text: str) -> str:
    return text[2:] if text[:2].lower() == "0x" else text


def from_base64(text: str) -> bytes | None:
    """Decodes base64 in the standard alphabet. Returns None for any other text."""
    if not _WITH_SPACES.match(text):
        return None
    text = _SPACES.sub("", text)
    letters = len(text.rstrip("="))
    if not _BASE64.match(text) or letters % 4 == 1 or (letters < len(text) and len(text) % 4):
        return None
    try:
        return a2b_base64(text + "=" * (-len(text) % 4))
    except Error:
        return None


def from_padded_base64(text: str) -> bytes | None:
    """Like `from_base64`, for writers that always pad: a text without padding has lost its end."""
    return from_base64(text) if len(_SPACES.sub("", text)) % 4 == 0 else None


def is_likely_hex(text: str) -> bool:
    """Returns whether a text that could be base64 is almost certainly hex.

    It is if it has 16 or more hex digits, all in the same case, of which a quarter or more are 0 to 9 (in hex
    of random bytes, 10 in 16 are). Base64 of random bytes looks like this once in 10^8; base64 of bytes that
    are mostly zero is mostly letters.
    """
    if len(text) % 2 or not _HEX_DIGITS.match(text):
        return False
    return 4 * sum(map(str.isdigit, text)) >= len(text)


def sizes(sql: SqlType) -> tuple[int, int | None]:
    """Returns the least and the greatest number of bytes of a type's values; None if it has no limit.

    A `binary` keeps its trailing zeros: fewer bytes mean that the text is written in another way.
    """
    if sql.base in {"rowversion", "timestamp"}:
        return 8, 8
    if sql.base not in {"binary", "varbinary"} or sql.length is None or sql.length < 1:
        return 0, None
    return sql.length if sql.base == "binary" else 0, sql.length


def of_size(sql: SqlType, read: Reader) -> Reader:
    """Wraps `read`: None for bytes that the type cannot hold, since their text is written in another way."""
    least, most = sizes(sql)
    if most is None:
        return read

    def sized(text: str) -> bytes | None:
        value = read(text)
        return value if value is not None and least <= len(value) <= most else None

    return sized
