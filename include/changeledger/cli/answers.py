"""The answer to a query, whoever gives it: names of columns, and rows of cells as they are printed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from math import isfinite
from typing import Any, NamedTuple

from changeledger.console import terminal
from changeledger.kernels import cast_text


class Answer(NamedTuple):
    columns: list[str]
    # Read as they are asked for.
    rows: Iterator[tuple[object, ...]]


def plain(cell: Any) -> object:
    """A cell whose instants have a zone: these in UTC, and what is nested as JSON has it."""
    if isinstance(cell, float):
        # JSON has no such numbers: in the words of Spark's own.
        return cell if isfinite(cell) else cast_text.double(cell)
    if isinstance(cell, datetime):
        return cell if cell.tzinfo is None else cell.astimezone(UTC)
    if isinstance(cell, dict):
        return {
            key if isinstance(key, str) else terminal.shown(plain(key)): plain(member)
            for key, member in cell.items()
        }
    return [plain(member) for member in cell] if isinstance(cell, list | tuple) else cell
