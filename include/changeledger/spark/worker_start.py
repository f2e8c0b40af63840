"""What Spark's Python does when a worker and when a task begins, made cheap (ADR 0025: of Spark 4.1)."""

from __future__ import annotations

import gc
import os
import socket
import sys
from contextlib import suppress
from stat import S_ISSOCK
from zipimport import zipimporter

from changeledger.console.arrow_alone import load_arrow
from changeledger.console.process import collect_rarely


def begin_worker() -> None:
    """Before a worker imports kernels: half of the time that it took."""
    collect_rarely()
    load_arrow()


def is_worker() -> bool:
    """Is this process one of Spark's workers? A driver does not import what they run."""
    return "pyspark.worker" in sys.modules


def begin_task() -> None:
    """Before a task a worker reads the directories of the archives again that it imports from, Spark's own
    Python among them: a tenth of a second. It does so for finders that are there; they are made when needed.
    After a task it collects garbage: another tenth, for all that was ever imported. That stays anyway.
    """
    gc.freeze()
    _acknowledge_at_once()
    archives = [path for path, finder in sys.path_importer_cache.items() if isinstance(finder, zipimporter)]
    for path in archives:
        del sys.path_importer_cache[path]


def _acknowledge_at_once() -> None:
    """Say to the JVM that a packet has come when it comes; until the next task.

    It sends a task in small packets, and each waits until the one before is acknowledged (Nagle's
    algorithm). Linux does that after 40 ms, to save packets: most of a short task's time.
    """
    if not hasattr(socket, "TCP_QUICKACK"):
        return
    for descriptor in map(int, os.listdir("/proc/self/fd")):  # noqa: PTH208 - for each task
        # One was open for the listing alone, and some are sockets of other kinds.
        with suppress(OSError):
            if S_ISSOCK(os.fstat(descriptor).st_mode):
                with socket.fromfd(descriptor, socket.AF_INET, socket.SOCK_STREAM) as connection:
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
