"""Column names: which names are valid, which ones Spark cannot distinguish, and how messages show them.

SQL Server may distinguish names by case; Spark does not.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache

# Length of SQL Server's type `sysname`, in UTF-16 code units.
_LONGEST = 128


def is_name(name: object) -> bool:
    """Returns whether SQL Server can have a column of that name.

    A lone surrogate is not a character, neither in UTF-8 nor in SQL Server. Any other character may stand
    between brackets: quotes, backslashes, line ends, NUL.
    Source: Microsoft's page "Database identifiers", delimited identifiers.
    """
    if not isinstance(name, str):
        return False
    try:
        return 0 < len(name.encode("utf-16-le")) // 2 <= _LONGEST
    except UnicodeEncodeError:
        return False


def shown(names: Iterable[str]) -> str:
    """Lists names for a detail, an error or a log line. Names that could be misread there become JSON text.

    Thus no name breaks a line, and none is invisible.
    """
    return ", ".join(name if _is_plain(name) else json.dumps(name) for name in names)


def _is_plain(name: str) -> bool:
    return bool(name) and name.isprintable() and name == name.strip() and not set(name) & set(',"\\')


# Messages of changed columns alone write the same names in thousands of ways.
@lru_cache(maxsize=8_192)
def folded(name: str) -> str:
    """Returns the name in the form by which Spark compares names, as Java's equalsIgnoreCase does.

    Characters are compared one by one. Dotted and dotless i are the same letter. A character whose upper case
    would be several characters is left as it is.
    """
    upper = (c.upper() if len(c.upper()) == 1 else c for c in name)
    return "".join(c.lower()[0] for c in upper)


def unlike(names: Sequence[str]) -> tuple[str, ...]:
    """Returns the names, keeping only the first of those that Spark cannot distinguish."""
    first = {folded(name): name for name in reversed(names)}
    return tuple(name for name in dict.fromkeys(names) if first[folded(name)] == name)


def alike(names: Sequence[str]) -> tuple[str, ...]:
    """Returns those of the names that Spark cannot distinguish from another of them."""
    times = Counter(map(folded, names))
    return tuple(name for name in names if times[folded(name)] > 1)
