"""10,000 updates into a published table of many rows: a window's cost in relation to the table's size.

    python -m benchmarks.subjects.large_table BOOTSTRAP ROWS HOME

Marks: `made`, `warm`, then the stages of two windows: updates of keys spread over the table
(`reconcile spread`), and of its last ones (`reconcile recent`). Spark appends the rows to main of the ledger,
the history and the current rows, as after a snapshot: through the line, ten million rows take an hour.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from benchmarks.feeds import feed_of
from benchmarks.large import WINDOWS, enlarge, filled, judge, name_of
from benchmarks.marks import mark
from benchmarks.topics import windows

if TYPE_CHECKING:
    from pyspark.sql import Column


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
            for table in (names.history, names.current):
                enlarge(spark, table, "id", rows, _of_row)
            enlarge(spark, names.changes, "key.id", rows, _of_change)
        if name in WINDOWS[:2]:
            mark(name)
    judge(spark, names, rows)


def _of_row(at: Column) -> dict[str, Column]:
    return {"id": at, "name": name_of(at)}


def _of_change(at: Column) -> dict[str, Column]:
    return {
        "key": F.col("key").withField("id", at),
        "after": F.col("after").withField("id", at).withField("name", name_of(at)),
        "change_id": F.sha2(at.cast("string"), 256),
        "source_position": F.col("source_position").withField("offset", -at.cast("bigint")),
    }


if __name__ == "__main__":
    main()
