"""Names of columns: what can be one, when two are one, and how messages to people show them.

SQL Server may distinguish names by their case, Spark does not.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence

# Of SQL Server's type `sysname`, in UTF-16.
_LONGEST = 128


def is_name(name: object) -> bool:
    """Can SQL Server have a column of that name? Half a surrogate pair is no character, in UTF-8 nor there.

    Everything else may stand between brackets: quotes, backslashes, ends of lines, NUL.
    Source: Microsoft's page "Database identifiers", delimited identifiers.
    """
    if not isinstance(name, str):
        return False
    try:
        return 0 < len(name.encode("utf-16-le")) // 2 <= _LONGEST
    except UnicodeEncodeError:
        return False


def shown(names: Iterable[str]) -> str:
    """Names as a detail, an error or a log line has them: what would be misread there as JSON text.

    So no name ends a line, and none hides.
    """
    return ", ".join(name if _is_plain(name) else json.dumps(name) for name in names)


def _is_plain(name: str) -> bool:
    return bool(name) and name.isprintable() and name == name.strip() and not set(name) & set(',"\\')


def folded(name: str) -> str:
    """The name as Spark compares names: character by character, as Java's equalsIgnoreCase does.

    An i with or without its dot is the same letter then. A character keeps to itself whose other case would
    be several.
    """
    upper = (c.upper() if len(c.upper()) == 1 else c for c in name)
    return "".join(c.lower()[0] for c in upper)


def unlike(names: Sequence[str]) -> tuple[str, ...]:
    """The names, of those that Spark cannot distinguish the first."""
    first = {folded(name): name for name in reversed(names)}
    return tuple(name for name in dict.fromkeys(names) if first[folded(name)] == name)


def alike(names: Sequence[str]) -> tuple[str, ...]:
    """Those of the names that Spark cannot distinguish."""
    times = Counter(map(folded, names))
    return tuple(name for name in names if times[folded(name)] > 1)
