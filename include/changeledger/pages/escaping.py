"""Escapes control characters in a source's text, so that a terminal shows them instead of obeying them.

An escape sequence in a value could hide or rewrite lines, or set the window's title. A mark that changes
the direction of writing could show one value as another.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

# C0 without tab and line feed, DEL, C1, line and paragraph separators, overrides of direction, and
# surrogates, which UTF-8 does not have.
_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_OBEYED_OR_LINE = re.compile(f"[\t\n]|{_OBEYED.pattern}")


def escaped(text: str) -> str:
    """Escapes characters that a terminal would obey (`\\x1b`, `\\u202e`), except tabs and line feeds."""
    return _OBEYED.sub(_shown, text)


def escaped_line(text: str) -> str:
    """Escapes tabs and line feeds as well, for text that must stay on one line, such as a value in a log."""
    return _OBEYED_OR_LINE.sub(_shown, text)


def json_line(value: Any, default: Callable[[Any], str] = str) -> str:
    """Returns the value as JSON on one line, as readable as JSON allows and the same for any parser."""
    text = json.dumps(value, ensure_ascii=False, default=default)
    # They only occur within strings, where JSON allows this form.
    return _OBEYED.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _shown(match: re.Match[str]) -> str:
    code = ord(match[0])
    return {9: "\\t", 10: "\\n", 13: "\\r"}.get(code, f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")
