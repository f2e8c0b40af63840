"""Guesses which known name an unknown name was meant to be."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def meant(name: str, known: Iterable[str], likeness: float = 0.6) -> str | None:
    """Returns the known name most like `name`, or None. Ignores case, and hyphens count as underscores.

    `likeness`: the least similarity, up to 1.
    """
    plain = {_plain(candidate): candidate for candidate in known}
    matches = get_close_matches(_plain(name), plain, n=1, cutoff=likeness)
    return plain[matches[0]] if matches else None


def choice(name: str, known: Iterable[str]) -> str:
    """Returns the remedy for an unknown name: the known name that was probably meant, or all of them."""
    names = list(known)
    near = meant(name, names)
    return f"did you mean {near!r}?" if near else f"choose from {', '.join(names) or 'none'}"


def _plain(name: str) -> str:
    return name.lower().replace("-", "_")
