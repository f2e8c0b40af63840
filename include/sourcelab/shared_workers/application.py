"""The application in which the server of `SharedWorkers` runs, until its JVM ends."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

if __name__ == "__main__":
    SparkSession.builder.getOrCreate()
    # The words of Spark's own server.
    print("Spark Connect server started at the port of its settings", flush=True)
    sys.stdin.read()
