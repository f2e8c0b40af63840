"""Text of a source on a terminal: characters that a terminal would obey are shown instead.

An escape sequence in a value could hide lines, rewrite them, or set the window's title; a mark that turns
the direction of writing could show one value as another.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

# C0 without tab and line feed, DEL, C1, line and paragraph separators, overrides of direction, and halves of
# surrogate pairs, which no UTF-8 has.
_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_OBEYED_OR_LINE = re.compile(f"[\t\n]|{_OBEYED.pattern}")


def escaped(text: str) -> str:
    """Tabs and ends of lines stay, every other character that is obeyed becomes `\\x1b` or `\\u202e`."""
    return _OBEYED.sub(_shown, text)


def escaped_line(text: str) -> str:
    """The same for what must stay one line, as a value within a log's line."""
    return _OBEYED_OR_LINE.sub(_shown, text)


def json_line(value: Any, default: Callable[[Any], str] = str) -> str:
    """The value as JSON on one line: as readable as JSON allows, and the same for whoever parses it."""
    text = json.dumps(value, ensure_ascii=False, default=default)
    # All of them are within a string's quotes, where JSON has this form of them.
    return _OBEYED.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _shown(match: re.Match[str]) -> str:
    code = ord(match[0])
    return {9: "\\t", 10: "\\n", 13: "\\r"}.get(code, f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")
