"""Where a raw record stands in its source, as a column of the lake."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F


def message_record() -> Column:
    """Where a raw Kafka message stands, of the columns of a raw table."""
    return F.struct(
        F.col("topic").alias("source"),
        "partition",
        "offset",
        F.lit(None).cast("binary").alias("row"),
    )


def row_record(source: Column, row: Column) -> Column:
    """Where a raw row of a table stands; the bytes of `row` are different for each row of `source`."""
    return F.struct(
        source.alias("source"),
        F.lit(None).cast("int").alias("partition"),
        F.lit(None).cast("bigint").alias("offset"),
        row.alias("row"),
    )
