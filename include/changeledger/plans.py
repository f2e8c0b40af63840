"""Keeping Spark's optimizer from making a plan larger than it can think through."""

from __future__ import annotations

import uuid

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def sealed(frame: DataFrame) -> DataFrame:
    """The same rows; no filter on them is moved below.

    A filter on a decoded column, moved into the decoding, takes a copy of all that the column depends on
    with it: minutes of planning for a wide table. Spark moves no filter past what is observed.
    """
    return frame.observe(f"sealed {uuid.uuid4()}", F.count(F.lit(1)).alias("rows"))
