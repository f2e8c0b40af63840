"""Works on several tables at once: their commits wait for the catalog, not for the processor."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_AT_ONCE = 4


def parallel_map(work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """Applies `work` to each item, such as a table, several at once. Raises the first error."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(work, items))
