"""Spark sessions, and the code that runs in Spark's workers."""

from changeledger.spark.worker_start import begin_worker, is_worker

if is_worker():
    begin_worker()
