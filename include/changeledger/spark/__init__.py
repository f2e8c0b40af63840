"""Spark: its sessions, and what its workers do."""

from changeledger.spark.worker_start import begin_worker, is_worker

if is_worker():
    begin_worker()
