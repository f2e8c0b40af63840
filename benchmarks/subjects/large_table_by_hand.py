"""The same updates of a table of many rows as `large_table`, by hand.

    python -m benchmarks.subjects.large_table_by_hand BOOTSTRAP ROWS HOME

Marks: `made`, `warm`, `spread`, `recent`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from benchmarks.large import CHANGES, WINDOWS, filled
from benchmarks.marks import mark
from benchmarks.shapes import PLAIN
from benchmarks.subjects import by_hand
from benchmarks.subjects.by_hand import Tables
from benchmarks.subjects.plain import plain_session
from benchmarks.topics import windows


def main() -> None:
    bootstrap, rows, home = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    topic = filled(bootstrap, rows, home, "by_hand")
    spark, tables = plain_session("by-hand"), Tables.numbered(0)
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.plain")
    for at, (name, hours) in enumerate(zip(WINDOWS, windows(len(WINDOWS)), strict=True)):
        received = by_hand.messages(spark, bootstrap, topic, hours)
        by_hand.append(tables, by_hand.changes(received, PLAIN), at)
        new = by_hand.appended(spark, tables, at)
        by_hand.merge(tables, new)
        by_hand.version(tables, new)
        if name == "made":
            _enlarge(spark, tables, rows)
        mark(name)
    _judge(spark, tables, rows)


def _enlarge(spark: SparkSession, tables: Tables, rows: int) -> None:
    """Rows like that of the first key, in the order of their keys."""
    keys = spark.range(0, rows, numPartitions=max(1, rows // 1_000_000)).select(
        F.col("id").cast("int").alias("_at")
    )
    cells = {"id": F.col("_at"), "name": F.concat(F.lit("customer "), F.col("_at"))}
    for name in tables:
        template = spark.table(name).where(f"id = {rows + 1}")
        of_keys = template.crossJoin(keys).withColumns(cells).select(*template.columns)
        of_keys.writeTo(name).append()


def _judge(spark: SparkSession, tables: Tables, rows: int) -> None:
    current, expected = spark.table(tables.current), F.concat(F.lit("changed "), F.col("id"))
    counts = (
        current.count(), spark.table(tables.history).count(), current.where(F.col("name") == expected).count()
    )  # fmt: skip
    wanted = rows + CHANGES, rows + 4 * CHANGES, 3 * CHANGES
    assert counts == wanted, f"rows, versions, changed rows: {counts}, not {wanted}"


if __name__ == "__main__":
    main()
