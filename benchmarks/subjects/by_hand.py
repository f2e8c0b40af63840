"""What one writes without this project, on the same Spark: read, append, `row_number`, MERGE, and SCD 2.

    python -m benchmarks.subjects.by_hand BOOTSTRAP TOPIC WINDOWS SHAPE OUT [--no-history]

The windows are read one after the other, as offsets that a broker gives for their times. Only a change that
is newer than the stored row is merged, and a deleted row stays as a mark: late messages do no harm to the rows. History is
made from the window's changes and the open version of their keys.
"""

from __future__ import annotations

import sys
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

_POSITION = ("commit_lsn", "change_lsn", "event_serial_no")
_CHANGES, _CURRENT, _HISTORY = "lake.plain.changes", "lake.plain.current", "lake.plain.history"


def main() -> None:
    bootstrap, topic, number, name, out = sys.argv[1:6]
    shape = SHAPES[name]
    spark = plain_session("by-hand")
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.plain")
    mark("start")
    for at, (begin, end) in enumerate(windows(int(number))):
        times = {"startingTimestamp": begin, "endingTimestamp": end}
        reader = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap)
        reader = reader.option("subscribe", topic).option("maxRecordsPerPartition", "250000")
        for name, time in times.items():
            reader = reader.option(name, str(int(time.timestamp() * 1000)))
        reader = reader.option("startingOffsetsByTimestampStrategy", "latest")
        _append(_changes(reader.load(), shape).withColumn("window", F.lit(at)))
        mark("append")
        # From the table: parsed once, and as a failed run would be repeated.
        new = spark.table(_CHANGES).where(F.col("window") == at).drop("window")
        _merge(spark, new)
        mark("merge")
        if "--no-history" not in sys.argv:
            _history(spark, new)
            mark("history")
    _publish(spark, Path(out), shape, history="--no-history" not in sys.argv)


def envelope(shape: Shape) -> str:
    cells = ", ".join(f"{name}: {column.wire}" for name, column in shape.columns.items())
    return (
        f"before struct<{cells}>, after struct<{cells}>, "
        "source struct<ts_ms:bigint,change_lsn:string,commit_lsn:string,event_serial_no:bigint>, op string"
    )


def _changes(messages: DataFrame, shape: Shape) -> DataFrame:
    read = messages.select(F.from_json(F.col("value").cast("string"), envelope(shape)).alias("m"))
    row = F.coalesce("m.after", "m.before")
    return read.withColumn("row", row).select(
        *(_typed(name, column).alias(name) for name, column in shape.columns.items()),
        F.col("m.op").alias("op"),
        *(F.col(f"m.source.{name}").alias(name) for name in _POSITION),
        F.timestamp_millis("m.source.ts_ms").alias("committed_at"),
    )


def _typed(name: str, column: Column) -> SparkColumn:
    cell = F.col(f"row.{name}")
    if column.sql == "date":
        return F.date_from_unix_date(cell)
    if column.sql.startswith("datetime2"):
        return (F.timestamp_millis if counts_ms(column) else F.timestamp_micros)(cell).cast("timestamp_ntz")
    return cell


def _append(rows: DataFrame) -> None:
    spark = rows.sparkSession
    if spark.catalog.tableExists(_CHANGES):
        rows.writeTo(_CHANGES).append()
    else:
        rows.writeTo(_CHANGES).using("iceberg").create()


def _merge(spark: SparkSession, new: DataFrame) -> None:
    """The newest change of each key, where it is newer than the row."""
    last = Over.partitionBy("id").orderBy(*(F.desc(name) for name in _POSITION))
    newest = new.withColumn("n", F.row_number().over(last)).where("n = 1").drop("n")
    if not spark.catalog.tableExists(_CURRENT):
        newest.writeTo(_CURRENT).using("iceberg").tableProperty("format-version", "2").create()
        return
    newest.createOrReplaceTempView("newest")
    spark.sql(
        f"MERGE INTO {_CURRENT} t USING newest s ON t.id = s.id "
        f"WHEN MATCHED AND struct({_listed('s')}) > struct({_listed('t')}) THEN UPDATE SET * "
        "WHEN NOT MATCHED THEN INSERT *"
    )


def _history(spark: SparkSession, new: DataFrame) -> None:
    """Versions of the window's changes, linked by position; an open version that is followed gets its end."""
    once = new.dropDuplicates(["id", *_POSITION])
    is_first = not spark.catalog.tableExists(_HISTORY)
    if not is_first:
        opened = spark.table(_HISTORY).where("valid_to IS NULL")
        opened = opened.join(once.select("id").distinct(), "id", "left_semi").drop("valid_from", "valid_to")
        once = once.unionByName(opened)
    by_key = Over.partitionBy("id").orderBy(*_POSITION)
    ends = F.lead("committed_at").over(by_key)
    versions = once.withColumn("valid_from", F.col("committed_at")).withColumn("valid_to", ends)
    if is_first:
        versions.writeTo(_HISTORY).using("iceberg").tableProperty("format-version", "2").create()
        return
    versions.createOrReplaceTempView("made")
    same = " AND ".join(f"t.{name} = s.{name}" for name in ("id", *_POSITION))
    spark.sql(
        f"MERGE INTO {_HISTORY} t USING made s ON {same} "
        "WHEN MATCHED THEN UPDATE SET t.valid_to = s.valid_to WHEN NOT MATCHED THEN INSERT *"
    )


def _listed(table: str) -> str:
    return ", ".join(f"{table}.{name}" for name in _POSITION)


def _publish(spark: SparkSession, out: Path, shape: Shape, *, history: bool) -> None:
    """For the judge; not measured."""
    out.mkdir(parents=True, exist_ok=True)
    rows = spark.table(_CURRENT).where("op <> 'd'").select(*shape.columns)
    pq.write_table(rows.toArrow(), out / "rows.parquet")
    if history:
        versions = spark.table(_HISTORY).where("op <> 'd'").select("id", "name")
        pq.write_table(versions.toArrow(), out / "versions.parquet")


if __name__ == "__main__":
    main()
