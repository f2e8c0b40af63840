"""The line: five stages over each window of its topics, in one process that begins cold.

    python -m benchmarks.subjects.line BOOTSTRAP TOPIC[,TOPIC...] WINDOWS OUT

Marks: `start`, then the stages of each window. `OUT` gets the first topic's rows and versions.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks.marks import mark
from benchmarks.stream import TYPES
from benchmarks.topics import windows


def main() -> None:
    bootstrap, topics, number, out = sys.argv[1:]
    connection = {"conn_type": "kafka", "extra": {"bootstrap.servers": bootstrap}}
    os.environ["AIRFLOW_CONN_BENCH_KAFKA"] = json.dumps(connection)
    from changeledger.config.feed import Feed  # noqa: PLC0415 - it reads the settings
    from changeledger.model.table_names import TableNames  # noqa: PLC0415
    from changeledger.model.window import Window  # noqa: PLC0415
    from changeledger.stages import audit, extract, normalize, publish, reconcile  # noqa: PLC0415
    from changeledger.storage.session import spark_session  # noqa: PLC0415

    columns = [{"name": name, "type": kind} for name, kind in TYPES.items()]
    tables = [topic.partition(".")[2] for topic in topics.split(",")]
    feed = Feed.model_validate(
        {
            "feed": "bench", "dialect": "debezium", "database": "bench", "connection": "bench_kafka",
            "source": {"topics": topics.split(","), "decimals": "text"},
            "tables": [{"table": table, "key": ["id"], "columns": columns} for table in tables],
        }
    )  # fmt: skip
    spark = spark_session("changeledger-bench")
    mark("start")
    for begin, end in windows(int(number)):
        for stage in (extract, normalize, reconcile, audit, publish):
            stage.run(spark, feed, Window(start=begin, end=end))
            mark(stage.__name__.rpartition(".")[2])
    names, folder = TableNames.of(feed.namespace, tables[0]), Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    rows = spark.table(names.current).select(*TYPES)
    pq.write_table(rows.toArrow(), folder / "rows.parquet")
    versions = spark.table(names.history).where("NOT _is_deleted").select("id", "name")
    pq.write_table(versions.toArrow(), folder / "versions.parquet")


if __name__ == "__main__":
    main()
