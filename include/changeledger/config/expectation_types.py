"""Great Expectations' types that users can name, with their arguments.

The list is a file (`scripts/expectation_types.py` writes it): to import Great Expectations takes seconds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from changeledger.model.misspelt import meant

FILE: Final = Path(__file__).with_suffix(".json")
_COLUMNS = {"column", "column_A", "column_B", "column_list"}


@cache
def known() -> dict[str, dict[str, bool]]:
    """By type, its arguments and whether each is required."""
    types: dict[str, dict[str, bool]] = json.loads(FILE.read_text("utf-8"))
    return types


def require(kind: str, arguments: Mapping[str, Any]) -> None:
    """Raises ValueError for an unknown type or argument, and for a required one that is missing."""
    if kind not in known():
        raise ValueError(f"unknown expectation {kind!r}{_guess(kind, known())}")
    parameters = known()[kind]
    for name in arguments:
        if name not in parameters:
            raise ValueError(f"{kind} has no argument {name!r}{_guess(name, parameters)}")
    missing = [name for name, is_required in parameters.items() if is_required and name not in arguments]
    if missing:
        raise ValueError(f"{kind} needs {', '.join(missing)}")


def columns(arguments: Mapping[str, Any]) -> list[str]:
    """The columns that an expectation is about."""
    names: list[str] = []
    for name in sorted(_COLUMNS & arguments.keys()):
        value = arguments[name]
        names += value if isinstance(value, list) else [value]
    return names


def _guess(name: str, names: Mapping[str, Any]) -> str:
    near = meant(name, names)
    return f", did you mean `{near}`?" if near else f": choose from {', '.join(names)}"
