"""What one would write without this project on the same Spark: read, append, `row_number`, MERGE, and SCD 2.

    python -m benchmarks.subjects.by_hand BOOTSTRAP TOPIC[,TOPIC...] WINDOWS SHAPE OUT [--no-history]

The windows are read one after the other, and in each window the tables, at the offsets that the broker
returns for the window's times. A change is merged only if it is newer than the stored row, and a deleted row
stays as a mark, so late messages do not corrupt the rows. History is built from the window's changes and the
open versions of their keys. `OUT` receives the first topic's rows and versions.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Sequence
from datetime import datetime
from functools import reduce
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import Window as Over
from pyspark.sql import functions as F

from benchmarks.marks import mark
from benchmarks.shapes import SHAPES, Column, Shape, counts_ms
from benchmarks.subjects.plain import plain_session
from benchmarks.topics import windows
from changeledger.model.table_names import TableNames

POSITION = ("commit_lsn", "change_lsn", "event_serial_no")


def main() -> None:
    bootstrap, topics, number, name, out = sys.argv[1:6]
    shape, has_history = SHAPES[name], "--no-history" not in sys.argv
    spark = plain_session("by-hand")
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.plain")
    mark("start")
    for at, hours in enumerate(windows(int(number))):
        for topic in topics.split(","):
            tables = TableNames.of("plain", topic)
            append(tables, changes(messages(spark, bootstrap, topic, hours), shape), at)
            mark("append")
            new = appended(spark, tables, at)
            merge(tables, new)
            mark("merge")
            if has_history:
                version(tables, new)
                mark("history")
    _publish(TableNames.of("plain", topics.split(",")[0]), spark, Path(out), shape, has_history=has_history)


def messages(spark: SparkSession, bootstrap: str, topic: str, hours: tuple[datetime, datetime]) -> DataFrame:
    """Reads the messages of a window: from the first of the two times, before the second."""
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    reader = reader.option("subscribe", topic).option("maxRecordsPerPartition", "250000")
    for name, time in zip(("startingTimestamp", "endingTimestamp"), hours, strict=True):
        reader = reader.option(name, str(int(time.timestamp() * 1000)))
    return reader.option("startingOffsetsByTimestampStrategy", "latest").load()


def envelope(shape: Shape) -> str:
    cells = ", ".join(f"{name}: {column.wire}" for name, column in shape.columns.items())
    return (
        f"before struct<{cells}>, after struct<{cells}>, "
        "source struct<ts_ms:bigint,change_lsn:string,commit_lsn:string,event_serial_no:bigint>, op string"
    )


def changes(received: DataFrame, shape: Shape) -> DataFrame:
    read = received.select(F.from_json(F.col("value").cast("string"), envelope(shape)).alias("m"))
    row = F.coalesce("m.after", "m.before")
    return read.withColumn("row", row).select(
        *(_typed(name, column).alias(name) for name, column in shape.columns.items()),
        F.col("m.op").alias("op"),
        *(F.col(f"m.source.{name}").alias(name) for name in POSITION),
        F.timestamp_millis("m.source.ts_ms").alias("committed_at"),
    )


def _typed(name: str, column: Column) -> SparkColumn:
    cell = F.col(f"row.{name}")
    if column.sql == "date":
        return F.date_from_unix_date(cell)
    if column.sql.startswith("datetime2"):
        return (F.timestamp_millis if counts_ms(column) else F.timestamp_micros)(cell).cast("timestamp_ntz")
    return cell


def append(tables: TableNames, rows: DataFrame, window: int) -> None:
    of_window = rows.withColumn("window", F.lit(window))
    if rows.sparkSession.catalog.tableExists(tables.changes):
        of_window.writeTo(tables.changes).append()
    else:
        of_window.writeTo(tables.changes).using("iceberg").create()


def appended(spark: SparkSession, tables: TableNames, window: int) -> DataFrame:
    """Reads the window's rows from the table: they are parsed once, and a repeated run would do the same."""
    return spark.table(tables.changes).where(F.col("window") == window).drop("window")


def merge(tables: TableNames, new: DataFrame) -> None:
    """Merges the newest change of each key, if it is newer than the row."""
    spark, last = new.sparkSession, Over.partitionBy("id").orderBy(*(F.desc(name) for name in POSITION))
    newest = new.withColumn("n", F.row_number().over(last)).where("n = 1").drop("n")
    if not spark.catalog.tableExists(tables.current):
        newest.writeTo(tables.current).using("iceberg").tableProperty("format-version", "2").create()
        return
    is_newer = F.struct(*_named("new", POSITION)) > F.struct(*_named(tables.current, POSITION))
    merging = newest.alias("new").mergeInto(tables.current, _same(tables.current, ("id",)))
    merging.whenMatched(is_newer).updateAll().whenNotMatched().insertAll().merge()


def version(tables: TableNames, new: DataFrame) -> None:
    """Adds versions of the window's changes, linked by position, and ends open versions that are followed."""
    spark, rows = new.sparkSession, new
    is_first = not spark.catalog.tableExists(tables.history)
    if not is_first:
        opened = spark.table(tables.history).where("valid_to IS NULL")
        opened = opened.join(new.select("id").distinct(), "id", "left_semi").drop("valid_from", "valid_to")
        rows = new.unionByName(opened)
    once = rows.dropDuplicates(["id", *POSITION])
    by_key = Over.partitionBy("id").orderBy(*POSITION)
    ends = F.lead("committed_at").over(by_key)
    versions = once.withColumn("valid_from", F.col("committed_at")).withColumn("valid_to", ends)
    if is_first:
        versions.writeTo(tables.history).using("iceberg").tableProperty("format-version", "2").create()
        return
    merging = versions.alias("new").mergeInto(tables.history, _same(tables.history, ("id", *POSITION)))
    merging = merging.whenMatched().update({"valid_to": F.col("new.valid_to")})
    merging.whenNotMatched().insertAll().merge()


def _same(table: str, names: Sequence[str]) -> SparkColumn:
    """Returns the condition that rows named `new` and a table's rows have the same values."""
    pairs = zip(_named("new", names), _named(table, names), strict=True)
    return reduce(operator.and_, (new == stored for new, stored in pairs))


def _named(table: str, names: Sequence[str]) -> list[SparkColumn]:
    return [F.col(f"{table}.{name}") for name in names]


def _publish(tables: TableNames, spark: SparkSession, out: Path, shape: Shape, *, has_history: bool) -> None:
    """Writes rows and versions for the judge; not measured."""
    out.mkdir(parents=True, exist_ok=True)
    rows = spark.table(tables.current).where("op <> 'd'").select(*shape.columns)
    pq.write_table(rows.toArrow(), out / "rows.parquet")
    if has_history:
        versions = spark.table(tables.history).where("op <> 'd'").select("id", "name")
        pq.write_table(versions.toArrow(), out / "versions.parquet")


if __name__ == "__main__":
    main()
