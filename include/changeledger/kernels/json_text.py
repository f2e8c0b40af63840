"""Reads JSON member by member, with each value exactly as it is written.

If a member occurs twice, the last one counts. Numbers keep their digits; nested values keep their text,
without white space.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from threading import Lock
from typing import Any

import msgspec

_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ARRAY = msgspec.json.Decoder(list[msgspec.Raw])
_TEXT = msgspec.json.Decoder(str)
_NUMBER = msgspec.json.Decoder(int | float)
# What msgspec raises for bytes or text that it cannot decode.
UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_HIGH, _LOW = rb"\\u[dD][89abAB][0-9a-fA-F]{2}", rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
# Whole pairs and all other text, then half a pair. The quantifiers are possessive: nothing is tried twice.
_LONE = re.compile(
    rb"(?:[^\\]++|\\[^u]|\\u(?![dD][89a-fA-F])|" + _HIGH + _LOW + rb")*+(?:" + _HIGH + rb"|" + _LOW + rb")",
    re.DOTALL,
)

# A JSON value as it is written.
Token = msgspec.Raw
Members = Mapping[str, Token]


# Held while a decoder is built.
_BUILDING = Lock()


class NotJson(ValueError):
    """The bytes are not one JSON value, or not an object."""


def decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    """Returns a decoder of JSON into this type. Threads of several tables may ask at the same time.

    msgspec 0.22 shows a struct to other threads before it has read all its fields: a decoder that was built
    meanwhile, of another type with the same struct, ends the process (SIGSEGV).
    """
    with _BUILDING:
        return msgspec.json.Decoder(kind)


def members(value: bytes | Token) -> dict[str, Token]:
    """Returns the members of an object. Raises NotJson."""
    try:
        return _OBJECT.decode(value)
    except UNREADABLE as error:
        raise NotJson(str(error)) from error


def elements(value: bytes | Token) -> list[Token]:
    """Returns the elements of an array. Raises NotJson."""
    try:
        return _ARRAY.decode(value)
    except UNREADABLE as error:
        raise NotJson(str(error)) from error


def in_lower_case(members: Members) -> dict[str, Token]:
    """Returns the members by lower-case name; of several with the same name, the last."""
    return {name.lower(): token for name, token in members.items()}


def is_object(token: Token) -> bool:
    return bytes(memoryview(token)[:1]) == b"{"


def is_nested(token: Token) -> bool:
    """Returns whether the value is an object or an array."""
    return bytes(memoryview(token)[:1]) in {b"{", b"["}


def is_text(token: Token) -> bool:
    return bytes(memoryview(token)[:1]) == b'"'


def text(token: Token | None) -> str | None:
    """Returns a text without its quotes, and any other value as written. None for null and for no value."""
    if token is None:
        return None
    written = bytes(token)
    if written[:1] == b'"':
        return _TEXT.decode(written)
    if written == b"null":
        return None
    if written[:1] in b"{[":
        written = msgspec.json.format(written, indent=-1)
    return written.decode()


def renamed(names: Iterable[str]) -> dict[str, str]:
    """Returns the member's name of each field `f0, f1, ...` of a struct: msgspec's `rename`.

    msgspec compares names as they are written, and refuses a name that JSON must escape. The field of such a
    name gets one that is longer than any in SQL Server, so that messages with that member are read one by
    one.
    """
    return {
        f"f{at}": f"f{at}" * 129 if any(letter in '\\"' or letter < " " for letter in name) else name
        for at, name in enumerate(names)
    }


def is_unquoted(token: Token) -> bool:
    """Returns whether the value is a number, `true` or `false`, unlike the same text in quotes."""
    return bytes(memoryview(token)[:1]) in b"-0123456789tf"


def number(token: bytes | Token) -> int | float | None:
    """Parses a number: a 64-bit float if it has a point or an exponent. Returns None for any other value."""
    try:
        written: int | float = _NUMBER.decode(token)
    except UNREADABLE:
        return None
    return written


def has_lone_surrogate(value: bytes) -> bool:
    """Returns whether a message is one JSON value, except that it escapes half of a surrogate pair.

    JSON can escape such a half and SQL Server can hold it; UTF-8 cannot.
    """
    # Few messages escape surrogates at all.
    if _SURROGATE.search(value) is None or _LONE.match(value) is None:
        return False
    try:
        json.loads(value)
    except (ValueError, RecursionError):
        return False
    return True
