"""A job that reads a table's first release and its main in one query, and prints their numbers of rows."""

from __future__ import annotations

import json

from pyspark.sql import functions as F

from changeledger.lake import iceberg
from changeledger.spark import session

TABLE = "lake.shop.dbo_customers_changes"


def main() -> None:
    spark = session.spark_session("beside")
    tags = spark.table(f"{TABLE}.refs").where(F.col("type") == "TAG").orderBy("name")
    first = tags.select("snapshot_id").first()
    assert first is not None
    frames = {"first": iceberg.read(spark, TABLE, snapshot=first[0]), "main": iceberg.read(spark, TABLE)}
    counts = [frame.groupBy().agg(F.lit(name), F.count(F.lit(1))) for name, frame in frames.items()]
    print("counted", json.dumps(dict(map(tuple, counts[0].union(counts[1]).collect()))))
    spark.stop()


if __name__ == "__main__":
    main()
