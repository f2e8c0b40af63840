"""Which rows Spark keeps at hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from pyspark.sql import DataFrame

Keep = Callable[[DataFrame], DataFrame]


def asked_once(rows: DataFrame) -> DataFrame:
    """A `Keep` for rows that are asked once: they need not be kept."""
    return rows


@contextmanager
def at_hand() -> Iterator[Keep]:
    """Gives a function that keeps rows which are asked several times; they are let go when the block ends.

    A server that stays warm would keep them on after an error, and a second try would read them in place
    of what the lake has by then.
    """
    with ExitStack() as kept:

        def keep(rows: DataFrame) -> DataFrame:
            kept.callback(rows.unpersist)
            return rows.persist()

        yield keep
