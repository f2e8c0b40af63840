"""Creates an archive of the classes that Spark on this machine loads, which its JVM maps into memory.

Without it, each start of Spark reads and checks some fifteen thousand classes from jars, for four CPU
seconds. The set-up runs this once for a set of jars and a Java. A JVM that does not match the archive starts
without it. The script starts a server, does a little of everything that stages ask of Spark, and has the
server write its classes when it ends.
"""
# ruff: noqa: S608 - the table's name stands here

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa

from changeledger.config.settings import Settings
from changeledger.kernels.rows import unchanged
from changeledger.spark.session import spark_session
from sourcelab.connect import SparkConnectServer

TABLE = "lake.trained.rows"
ROWS = pa.table({"id": [1, 2], "text": ["a", None], "bytes": [b"a", None], "price": [1.5, None]})
STATEMENTS = (
    f"ALTER TABLE {TABLE} CREATE BRANCH `trained`",
    f"MERGE INTO {TABLE}.branch_trained t USING added s ON t.id = s.id AND t.id IN (1, 2)"
    " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
    f"DELETE FROM {TABLE} WHERE id = 1",
    f"ALTER TABLE {TABLE} CREATE OR REPLACE TAG `kept`",
    f"CALL lake.system.rewrite_data_files(table => '{TABLE}')",
    f"CALL lake.system.expire_snapshots(table => '{TABLE}', older_than => TIMESTAMP '2001-01-01 00:00:00')",
)


def main() -> None:
    archive = Path(sys.argv[1])
    new_archive = archive.with_suffix(".made")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        settings = Settings(home=Path(folder))
        # Applies to the JVM that becomes the server, not to the one that builds its command line.
        os.environ["SPARK_SUBMIT_OPTS"] = f'"-XX:ArchiveClassesAtExit={new_archive}"'
        server = SparkConnectServer(settings, settings.home)
        # The server writes the archive when it ends: this takes minutes on a slow, busy machine.
        server.farewell_seconds = 600.0
        with server:
            os.environ["SPARK_REMOTE"] = server.remote
            os.environ["CHANGELEDGER_HOME"] = folder
            train(spark_session("class archive"))
    new_archive.replace(archive)


def train(spark: Any) -> None:
    rows = spark.createDataFrame(ROWS)
    rows.createOrReplaceTempView("added")
    schema = "id bigint, text string, bytes binary, price double"
    spark.sql(f"CREATE TABLE {TABLE} ({schema}) USING iceberg PARTITIONED BY (bucket(1, id))")
    rows.writeTo(TABLE).append()
    for statement in STATEMENTS:
        spark.sql(statement)
    rows.repartition(2, "id").mapInArrow(unchanged, schema).cache().writeTo(TABLE).overwritePartitions()
    spark.sql(f"SELECT text, count(*), max(price) FROM {TABLE} GROUP BY text ORDER BY text").toArrow()
    spark.sql(f"SELECT * FROM {TABLE}.files").collect()
    spark.stop()


if __name__ == "__main__":
    main()
