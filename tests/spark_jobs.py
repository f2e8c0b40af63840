"""Counts the jobs that Spark begins."""

from __future__ import annotations

import time

from pyspark.sql import SparkSession


class Counter:
    """The jobs that a session has begun since the last call."""

    def __init__(self, spark: SparkSession) -> None:
        self._tracker = spark.sparkContext.statusTracker()
        self._known = set(self._tracker.getJobIdsForGroup())

    def new(self) -> int:
        # Spark records jobs in another thread.
        time.sleep(0.3)
        known, self._known = self._known, set(self._tracker.getJobIdsForGroup())
        return len(self._known - known)
