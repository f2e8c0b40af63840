"""Spark's typed JSON read of a stream into an Iceberg table, in a process that begins cold.

python -m benchmarks.subjects.floor MESSAGES
"""

from __future__ import annotations

import sys

from benchmarks.marks import mark
from benchmarks.shapes import PLAIN
from benchmarks.subjects.by_hand import envelope
from benchmarks.subjects.plain import plain_session


def main() -> None:
    spark = plain_session("floor")
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.plain")
    mark("start")
    spark.read.schema(envelope(PLAIN)).json(sys.argv[1]).writeTo("lake.plain.floor").using("iceberg").create()
    mark("read")


if __name__ == "__main__":
    main()
