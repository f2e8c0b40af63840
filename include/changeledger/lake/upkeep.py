"""What maintenance asks of the lake's tables: their refs, and rows that need not be kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from changeledger.lake import iceberg, refs, writes
from changeledger.model.change import literal
from changeledger.spark.rows import Workers


def delete_where(spark: SparkSession, table: str, condition: str) -> int:
    """Delete the rows of main; returns how many there were. Without any, nothing is written."""
    count = count_where(spark, table, condition)
    if count:
        spark.sql(f"DELETE FROM {table} WHERE {condition}")  # noqa: S608 - of our own names and literals
    return count


def unset_where(spark: SparkSession, table: str, column: str, condition: str) -> None:
    """Set the column to NULL in the rows of main that meet the condition. Without any, nothing is written."""
    if count_where(spark, table, condition):
        spark.sql(f"UPDATE {table} SET {column} = NULL WHERE {condition}")  # noqa: S608 - as above


def count_where(spark: SparkSession, table: str, condition: str) -> int:
    """The condition may ask other tables, which only SQL can."""
    (row,) = spark.sql(f"SELECT count(*) FROM {table} WHERE {condition}").collect()  # noqa: S608 - as above
    return int(row[0])


def runs_of(spark: SparkSession, raw: str) -> set[str]:
    """The runs that have rows in a raw table, from its metadata."""
    rows = spark.table(f"{raw}.partitions").select("partition.window_id").distinct().collect()
    return {row["window_id"] for row in rows}


def retain_only(spark: SparkSession, raw: str, runs: Sequence[str], kept: Mapping[str, DataFrame]) -> int:
    """Remove the rows of these runs from a raw table; of a run in `kept` those rows stay.

    Returns how many runs have lost rows.
    """
    whole = [run for run in runs if run not in kept]
    if whole:
        names = ", ".join(map(literal, whole))
        spark.sql(f"DELETE FROM {raw} WHERE window_id IN ({names})")  # noqa: S608 - literals
    changed = len(whole)
    workers = Workers(lambda: spark)
    for run, rows in kept.items():
        since = refs.snapshot_of(raw)
        if rows.count() < iceberg.read(spark, raw).where(F.col("window_id") == run).count():
            writes.replace_window(workers.of_spark(rows), raw, run, since)
            changed += 1
    return changed
