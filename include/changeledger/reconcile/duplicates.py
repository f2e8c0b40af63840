"""Changes that were delivered more than once."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F


def repeated(new: DataFrame, known: DataFrame | None) -> DataFrame:
    """`(change_id, record, operation, run_id)` of new ledger rows that tell a change again.

    Of several deliveries in one window the first one stays. `known` holds the `change_id` of what the
    ledger has already, None where that is nothing. Only ids travel: 32 digits and a position for each row.
    """
    narrow = new.select("change_id", "record", "operation", "run_id")
    twice = narrow.groupBy("change_id").agg(F.count("*").alias("n")).where(F.col("n") > 1)
    delivery = Window.partitionBy("change_id").orderBy(
        F.col("record")["source"], F.col("record")["partition"], F.col("record")["offset"]
    )
    within = (
        narrow.join(twice, "change_id", "left_semi")
        .withColumn("delivery", F.row_number().over(delivery))
        .where(F.col("delivery") > 1)
        .select("change_id", "record", "operation", "run_id")
    )
    if known is None:
        return within
    before = narrow.join(known, "change_id", "left_semi")
    return within.unionByName(before).distinct()
