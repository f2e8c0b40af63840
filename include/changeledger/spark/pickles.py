"""Values that are sent to Spark's Python workers. Each is pickled by itself, since a task needs few of them.

This module imports no Spark: each worker pays for its imports.
"""

from __future__ import annotations

import pickle
from io import BytesIO
from typing import Any, NamedTuple


class Pickles(NamedTuple):
    """Pickled values. `shared`: tables and arrays that several values use, such as the keys of a window; they
    are sent once, and values refer to them by number."""

    each: tuple[bytes, ...]
    shared: tuple[bytes, ...] = ()

    def value(self, number: int) -> Any:
        return _Unpickler(self.each[number], self.shared).load()


# Spark itself unpickles what the driver sends to its workers; this does the same one step later.
class _Unpickler(pickle.Unpickler):  # noqa: S301
    def __init__(self, pickled: bytes, shared: tuple[bytes, ...]) -> None:
        super().__init__(BytesIO(pickled))
        self._shared = shared

    def persistent_load(self, number: int) -> Any:
        return pickle.loads(self._shared[number])  # noqa: S301
