"""Values on their way to Spark's Python workers: each is pickled by itself, since a task needs few of them.

It imports no Spark: each worker pays for its imports.
"""

from __future__ import annotations

import pickle
from io import BytesIO
from typing import Any, NamedTuple


class Pickles(NamedTuple):
    """`shared`: tables and arrays that values may have together, such as the keys of a window: they are sent
    once, and a value has their numbers."""

    each: tuple[bytes, ...]
    shared: tuple[bytes, ...] = ()

    def value(self, number: int) -> Any:
        return _Unpickler(self.each[number], self.shared).load()


# Spark's own way from the driver to its workers, one step later.
class _Unpickler(pickle.Unpickler):  # noqa: S301
    def __init__(self, pickled: bytes, shared: tuple[bytes, ...]) -> None:
        super().__init__(BytesIO(pickled))
        self._shared = shared

    def persistent_load(self, number: int) -> Any:
        return pickle.loads(self._shared[number])  # noqa: S301
