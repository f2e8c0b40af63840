"""The line: five stages over each window of its topics, in one process that begins cold.

    python -m benchmarks.subjects.line BOOTSTRAP TOPIC[,TOPIC...] WINDOWS SHAPE OUT

Marks: `start`, then the stages of each window. `OUT` receives the first topic's rows and versions.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks.feeds import feed_of
from benchmarks.marks import mark
from benchmarks.shapes import SHAPES
from benchmarks.topics import windows


def main() -> None:
    bootstrap, topics, number, name, out = sys.argv[1:]
    shape = SHAPES[name]
    from changeledger.model.table_names import TableNames  # noqa: PLC0415 - they read the settings
    from changeledger.model.window import Window  # noqa: PLC0415
    from changeledger.spark.session import spark_session  # noqa: PLC0415
    from changeledger.stages import audit, extract, normalize, publish, reconcile  # noqa: PLC0415

    feed = feed_of(bootstrap, topics.split(","), shape)
    spark = spark_session("changeledger-bench")
    mark("start")
    for begin, end in windows(int(number)):
        for stage in (extract, normalize, reconcile, audit, publish):
            stage.run(spark, feed, Window(start=begin, end=end))
            mark(stage.__name__.rpartition(".")[2])
    names, folder = TableNames.of(feed.namespace, feed.tables[0].table), Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    rows = spark.table(names.current).select(*shape.columns)
    pq.write_table(rows.toArrow(), folder / "rows.parquet")
    versions = spark.table(names.history).where("NOT _is_deleted").select("id", "name")
    pq.write_table(versions.toArrow(), folder / "versions.parquet")


if __name__ == "__main__":
    main()
