"""Which rows Spark keeps at hand."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from pyspark.sql import DataFrame

Keep = Callable[[DataFrame], DataFrame]


def asked_once(rows: DataFrame) -> DataFrame:
    """A `Keep` for rows that are asked once: they need not be kept."""
    return rows


class RowCache:
    """Keeps rows that are asked several times."""

    def __init__(self, kept: ExitStack) -> None:
        self._kept = kept

    def __call__(self, rows: DataFrame) -> DataFrame:
        self._kept.callback(rows.unpersist)
        return rows.persist()

    def counted(self, rows: DataFrame) -> tuple[DataFrame, int]:
        """The rows, kept, and their number; what observes them has seen all of them.

        They are read through a view from then on: pyspark's client of a Connect server fails to join observed
        rows into both sides of a join (it merges the observations of the two sides by name).
        """
        kept = self(rows)
        number = kept.count()
        spark, view = rows.sparkSession, f"kept_{uuid.uuid4().hex}"
        kept.createTempView(view)
        self._kept.callback(spark.catalog.dropTempView, view)
        return spark.table(view), number


@contextmanager
def at_hand() -> Iterator[RowCache]:
    """Gives a function that keeps rows which are asked several times; they are let go when the block ends.

    A server that stays warm would keep them on after an error, and a second try would read them in place
    of what the lake has by then.
    """
    with ExitStack() as kept:
        yield RowCache(kept)
