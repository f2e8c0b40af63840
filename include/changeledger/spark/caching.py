"""Which rows Spark caches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from pyspark.sql import DataFrame

Cache = Callable[[DataFrame], DataFrame]


def uncached(rows: DataFrame) -> DataFrame:
    """A `Cache` for rows that are read once: it caches nothing."""
    return rows


@contextmanager
def cached() -> Iterator[Cache]:
    """Gives a function that caches rows which are read several times; they are released when the block ends.

    A server that stays warm would keep them cached after an error, and a second try would read them in place
    of what the lake has by then.
    """
    with ExitStack() as kept:

        def cache(rows: DataFrame) -> DataFrame:
            kept.callback(rows.unpersist)
            return rows.persist()

        yield cache
