"""Where a raw record stands in its source, as a column of the lake."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F


def message_record(message: Callable[[str], Column] = F.col) -> Column:
    """Where a raw Kafka message stands; `message` gives its columns, by their names in a raw table."""
    return F.struct(
        message("topic").alias("source"),
        message("partition").alias("partition"),
        message("offset").alias("offset"),
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
