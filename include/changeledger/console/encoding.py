"""Standard output in a locale whose encoding lacks characters, such as ISO-8859-1."""

from __future__ import annotations

import codecs
import io
import json
import sys

_NAME = "changeledger.escape"


def escape_unknown() -> None:
    """Print characters that the encoding lacks as JSON escapes them (`\\u2192`), which JSON readers read."""
    codecs.register_error(_NAME, _escaped)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_NAME)


def _escaped(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end
