"""What Spark is told of a plan: where filters stop, and which rows it keeps at hand."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

Keep = Callable[[DataFrame], DataFrame]


def sealed(frame: DataFrame) -> DataFrame:
    """The same rows; no filter on them is moved below.

    A filter on a decoded column, moved into the decoding, takes a copy of all that the column depends on
    with it: minutes of planning for a wide table. Spark moves no filter past what is observed.
    """
    return frame.observe(f"sealed {uuid.uuid4()}", F.count(F.lit(1)).alias("rows"))


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
