"""Bytes that are written as text: hex digits or base64."""

from __future__ import annotations

import re
from binascii import Error, a2b_base64
from collections.abc import Callable

from changeledger.model.sql_type import SqlType

Reader = Callable[[str], bytes | None]
# Spaces may stand anywhere in base64, and the padding may lack (Spark's `to_binary`).
_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}\Z")
_WITH_SPACES = re.compile(r"[A-Za-z0-9+/=\s]*\Z")
_SPACES = re.compile(r"\s+")
_HEX_DIGITS = re.compile(r"(?:[0-9A-F]{16,}|[0-9a-f]{16,})\Z")


def from_hex(text: str) -> bytes | None:
    """Digits in any case, two a byte; None for any other text."""
    if len(text) % 2 or not text.isascii() or (text and not text.isalnum()):
        return None
    try:
        return bytes.fromhex(text)
    except ValueError:
        return None


def without_0x(text: str) -> str:
    return text[2:] if text[:2].lower() == "0x" else text


def from_base64(text: str) -> bytes | None:
    """Base64 in its usual alphabet; None for any other text."""
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
    """As `from_base64`, of writers that always pad: a text without its padding has lost its end."""
    return from_base64(text) if len(_SPACES.sub("", text)) % 4 == 0 else None


def is_likely_hex(text: str) -> bool:
    """Is a text, which base64 could be, nearly certainly hex: 16 digits or more, in one case, many of 0 to 9?

    Of hex 10 in 16 are. Random bytes make such base64 once in 10^8; bytes that are mostly zero make letters.
    """
    if len(text) % 2 or not _HEX_DIGITS.match(text):
        return False
    return 4 * sum(map(str.isdigit, text)) >= len(text)


def sizes(sql: SqlType) -> tuple[int, int | None]:
    """The least and the most bytes of a value of the type; None: any number.

    A `binary` has its zeros: shorter bytes are those of a text that is written in another way.
    """
    if sql.base in {"rowversion", "timestamp"}:
        return 8, 8
    if sql.base not in {"binary", "varbinary"} or sql.length is None or sql.length < 1:
        return 0, None
    return sql.length if sql.base == "binary" else 0, sql.length


def of_size(sql: SqlType, read: Reader) -> Reader:
    """As `read`; None for bytes that the type cannot hold: their text is written in another way."""
    least, most = sizes(sql)
    if most is None:
        return read

    def sized(text: str) -> bytes | None:
        value = read(text)
        return value if value is not None and least <= len(value) <= most else None

    return sized
