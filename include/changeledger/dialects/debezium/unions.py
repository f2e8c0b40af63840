"""Unwraps events in Avro's own JSON, as printed by a console consumer or by a sink that kept the unions.

The value of an optional field is wrapped in the name of its branch (`{"long": 5}`), and a row in the name of
its record (`{"server1.dbo.t.Value": {...}}`). Bytes are text with one character per byte. An event is
recognized by its wrapped row; other events of the topic are plain JSON.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import Any

from changeledger.kernels import json_text
from changeledger.kernels.json_text import Members, Token

_ROW = ".Value"
# For each branch its type in a schema block.
KINDS: Mapping[str, str] = {
    "string": "string",
    "bytes": "bytes",
    "int": "int32",
    "long": "int64",
    "float": "float",
    "double": "double",
    "boolean": "boolean",
}


def row_of(image: Any) -> Mapping[str, Any] | None:
    """Returns the members inside a wrapped row, or None if the image is not wrapped."""
    if not isinstance(image, dict) or len(image) != 1:
        return None
    ((name, row),) = image.items()
    return row if name.endswith(_ROW) and isinstance(row, dict) else None


def is_wrapped(payload: Mapping[str, Any]) -> bool:
    """Returns whether an event is in Avro's own JSON."""
    return any(row_of(payload.get(side)) is not None for side in ("before", "after"))


def row(image: Members | None) -> Members | None:
    """Does the same as `row_of` for an image given as tokens."""
    if image is None or len(image) != 1:
        return None
    ((name, inner),) = image.items()
    return json_text.members(inner) if name.endswith(_ROW) and json_text.is_object(inner) else None


def cell(token: Token, *, in_bytes: bool) -> tuple[str | None, str, bool]:
    """Returns the text of a cell (bytes as base64), its branch, and whether it is written without quotes.

    A value in a column that cannot be NULL is not wrapped, and text is never a wrapper, whatever it looks
    like. `in_bytes`: whether text without a wrapper is bytes.
    """
    members = json_text.members(token) if json_text.is_object(token) else {}
    name = next(iter(members), "")
    name = name if name in KINDS else ""
    inside = members[name] if name else token
    text, is_unquoted = json_text.text(inside), json_text.is_unquoted(inside)
    is_bytes = name == "bytes" or (in_bytes and not name and json_text.is_text(inside))
    return (_in_base64(text) if is_bytes and text is not None else text), name, is_unquoted


def _in_base64(text: str) -> str:
    """Converts text of one character per byte to base64; returns other text unchanged."""
    try:
        return b64encode(text.encode("latin-1")).decode()
    except UnicodeEncodeError:
        return text
