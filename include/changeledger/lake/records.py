"""The position of a raw record in its source, as a column of the lake."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F


def message_record() -> Column:
    """Builds the position of a raw Kafka message from the columns of the raw table."""
    return F.struct(
        F.col("topic").alias("source"),
        "partition",
        "offset",
        F.lit(None).cast("binary").alias("row"),
    )


def row_record(source: Column, row: Column) -> Column:
    """Builds the position of a raw row of a table. `row`: bytes that differ for each row of `source`."""
    return F.struct(
        source.alias("source"),
        F.lit(None).cast("int").alias("partition"),
        F.lit(None).cast("bigint").alias("offset"),
        row.alias("row"),
    )
