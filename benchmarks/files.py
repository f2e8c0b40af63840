"""Measures reading and writing files in Spark's workers, and by Spark's Iceberg source.

Prints medians of CPU seconds of both in one run: `python -m benchmarks.files [rows] [tries]`. The rows are
like those of a ledger: two structs of ten columns. Each way reads all rows, passes them to Python as Arrow,
and appends them to another table (ADR 0036).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from tempfile import mkdtemp

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from changeledger.kernels.arrow import table_schema
from changeledger.kernels.rows import count
from changeledger.lake import catalog, iceberg, new_tables, scans, writes
from changeledger.spark.rows import Workers
from changeledger.spark.session import spark_session

IMAGE = "struct<{}>".format(
    ",".join(
        f"{name}:{kind}"
        for name, kind in {
            "id": "int", "name": "string", "n1": "int", "n2": "int", "amount": "decimal(18,2)", "d": "date",
            "ts": "timestamp", "flag": "boolean", "city": "string", "x": "double",
        }.items()
    )
)  # fmt: skip
COLUMNS = (("change_id", "string"), ("sort_key", "binary"), ("before", IMAGE), ("after", IMAGE))
_FROM, _TO = "lake.files.ledger", "lake.files.copy"


def create_tables(spark: SparkSession, rows: int) -> None:
    catalog.create_namespace("files")
    for table in (_FROM, _TO):
        spark.sql(f"DROP TABLE IF EXISTS {table}")
        new_tables.create(table, table_schema(COLUMNS))
    image = (
        "named_struct('id', int(id), 'name', concat('customer ', id * 7919 % 1000000), 'n1', int(id % 1000003), "
        "'n2', if(id % 2 = 0, NULL, int(id % 10007)), 'amount', CAST(id * 31 % 100000000 / 100 AS decimal(18,2)), "
        "'d', date_add(DATE '2020-01-01', int(id % 2000)), 'ts', timestamp_micros(1600000000000000 + id * 977), "
        "'flag', id % 3 = 0, 'city', if(id % 2 = 0, NULL, concat('city ', id % 50)), 'x', rand(id % 7))"
    ).replace("rand(id % 7)", "CAST(id * 7 % 100003 / 13 AS double)")
    frame = spark.range(rows).select(
        F.concat(F.lit("c"), "id").alias("change_id"),
        F.encode(F.concat(F.lit("k"), "id"), "UTF-8").alias("sort_key"),
        F.expr(f"if(id % 3 = 0, NULL, {image})").alias("before"),
        F.expr(image).alias("after"),
    )
    iceberg.append(frame.coalesce(4), _FROM)


def _same(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
    return batches


def by_spark(spark: SparkSession) -> None:
    frame = spark.table(_FROM)
    iceberg.append(frame.mapInArrow(_same, frame.schema), _TO)


def _schema(spark: SparkSession) -> pa.Schema:
    return to_arrow_schema(spark.table(_FROM).schema)


def by_workers(spark: SparkSession) -> None:
    with Workers(lambda: spark) as workers:
        rows = scans.scanned(workers, _FROM, AlwaysTrue(), _schema(spark))
        writes.append(rows, _TO, "main")


def read_by_workers(spark: SparkSession) -> None:
    with Workers(lambda: spark) as workers:
        count(scans.scanned(workers, _FROM, AlwaysTrue(), _schema(spark)))


def read_by_spark(spark: SparkSession) -> None:
    frame = spark.table(_FROM)
    frame.mapInArrow(_counts, "n bigint").agg(F.sum("n")).collect()


def _counts(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"n": pa.array([batch.num_rows], pa.int64())})


def _cpu() -> float:
    """Returns the CPU seconds of this process and all its descendants."""
    mine, ticks = {os.getpid()}, 0
    stats = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            stats[int(folder.name)] = int(fields[1]), sum(map(int, fields[11:15]))
    while children := {pid for pid, (parent, _) in stats.items() if parent in mine} - mine:
        mine |= children
    ticks = sum(spent for pid, (_, spent) in stats.items() if pid in mine)
    return ticks / os.sysconf("SC_CLK_TCK")


def main(rows: int, tries: int) -> None:
    os.environ["CHANGELEDGER_HOME"] = mkdtemp()
    spark = spark_session("files")
    create_tables(spark, rows)
    ways: dict[str, Callable[[SparkSession], None]] = {
        "read, Spark's source": read_by_spark, "read, workers": read_by_workers,
        "read and append, Spark's source": by_spark, "read and append, workers": by_workers,
    }  # fmt: skip
    spent: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(tries + 1):
        for name, way in ways.items():
            begin = _cpu()
            way(spark)
            # The first round warms up.
            if number:
                spent[name].append(_cpu() - begin)
    for name, seconds in spent.items():
        print(f"{name}: {median(seconds):.1f} CPU s ({', '.join(f'{duration:.1f}' for duration in seconds)})")


if __name__ == "__main__":
    main(*(int(argument) for argument in (*sys.argv[1:3], *("1000000", "3")[len(sys.argv) - 1 :])))
