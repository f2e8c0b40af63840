"""When two names of columns are one: SQL Server may distinguish them by their case, Spark does not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence


def folded(name: str) -> str:
    """The name as Spark compares names: character by character, as Java's equalsIgnoreCase does.

    An i with or without its dot is the same letter then. A character keeps to itself whose other case would
    be several.
    """
    upper = (c.upper() if len(c.upper()) == 1 else c for c in name)
    return "".join(c.lower()[0] for c in upper)


def alike(names: Sequence[str]) -> tuple[str, ...]:
    """Those of the names that Spark cannot distinguish."""
    times = Counter(map(folded, names))
    return tuple(name for name in names if times[folded(name)] > 1)
