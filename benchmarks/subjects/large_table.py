"""10,000 updates into a published table of many rows: what a window costs beside the table's size.

    python -m benchmarks.subjects.large_table BOOTSTRAP ROWS HOME

Marks: `made`, `warm`, then the stages of two windows: updates of keys all over the table (`reconcile spread`),
and of its last ones (`reconcile recent`). The rows are put on main of the ledger, the history and the current
rows by Spark, as a snapshot would have: through the line ten million take an hour.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from benchmarks.feeds import feed_of
from benchmarks.large import CHANGES, WINDOWS, filled
from benchmarks.marks import mark
from benchmarks.topics import windows

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

    from changeledger.model.table_names import TableNames


def main() -> None:
    bootstrap, rows, home = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    topic = filled(bootstrap, rows, home, "line")
    feed = feed_of(bootstrap, [topic])
    from changeledger.model.table_names import TableNames  # noqa: PLC0415 - they read the settings
    from changeledger.model.window import Window  # noqa: PLC0415
    from changeledger.spark.session import spark_session  # noqa: PLC0415
    from changeledger.stages import audit, extract, normalize, publish, reconcile  # noqa: PLC0415

    spark = spark_session("changeledger-bench")
    names = TableNames.of(feed.namespace, feed.tables[0].table)
    for name, (begin, end) in zip(WINDOWS, windows(len(WINDOWS)), strict=True):
        for stage in (extract, normalize, reconcile, audit, publish):
            stage.run(spark, feed, Window(start=begin, end=end))
            if name in WINDOWS[2:]:
                mark(f"{stage.__name__.rpartition('.')[2]} {name}")
        if name == "made":
            _enlarge(spark, names, rows)
        if name in WINDOWS[:2]:
            mark(name)
    _judge(spark, names, rows)


def _enlarge(spark: SparkSession, names: TableNames, rows: int) -> None:
    """Rows like that of the first key, in the order of their keys."""
    keys = spark.range(0, rows, numPartitions=max(1, rows // 1_000_000)).select(
        F.col("id").cast("int").alias("_at")
    )
    name = F.concat(F.lit("customer "), F.col("_at"))
    for table, cells in (
        (names.history, {"id": F.col("_at"), "name": name}),
        (names.current, {"id": F.col("_at"), "name": name}),
        (names.changes, _ledger_cells(name)),
    ):
        is_template = f"{'key.id' if table == names.changes else 'id'} = {rows + 1}"
        template = spark.table(table).where(is_template)
        rows_of_keys = template.crossJoin(keys).withColumns(cells).select(*template.columns)
        rows_of_keys.writeTo(table).append()


def _ledger_cells(name: Column) -> dict[str, Column]:
    at = F.col("_at")
    return {
        "key": F.col("key").withField("id", at),
        "after": F.col("after").withField("id", at).withField("name", name),
        "change_id": F.sha2(at.cast("string"), 256),
        "source_position": F.col("source_position").withField("offset", -at.cast("bigint")),
    }


def _judge(spark: SparkSession, names: TableNames, rows: int) -> None:
    current, history = spark.table(names.current), spark.table(names.history)
    expected = F.concat(F.lit("changed "), F.col("id"))
    counts = current.count(), history.count(), current.where(F.col("name") == expected).count()
    wanted = rows + CHANGES, rows + 4 * CHANGES, 3 * CHANGES
    assert counts == wanted, f"rows, versions, changed rows: {counts}, not {wanted}"


if __name__ == "__main__":
    main()
