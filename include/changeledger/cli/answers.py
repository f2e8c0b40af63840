"""The answer to a query, from Spark or DuckDB: column names, and rows of cells to print."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from math import isfinite
from typing import Any, NamedTuple

from changeledger.console import terminal
from changeledger.kernels import cast_text


class Answer(NamedTuple):
    columns: list[str]
    # Read lazily.
    rows: Iterator[tuple[object, ...]]


def plain(cell: Any) -> object:
    """Returns a cell with zoned times in UTC, and with nested values as JSON has them."""
    if isinstance(cell, float):
        # JSON has no infinity and NaN: write them as Spark does.
        return cell if isfinite(cell) else cast_text.double(cell)
    if isinstance(cell, datetime):
        return cell if cell.tzinfo is None else cell.astimezone(UTC)
    if isinstance(cell, dict):
        return {
            key if isinstance(key, str) else terminal.shown(plain(key)): plain(member)
            for key, member in cell.items()
        }
    return [plain(member) for member in cell] if isinstance(cell, list | tuple) else cell
