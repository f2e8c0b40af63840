"""Makes the start of Spark's Python workers and tasks cheap (ADR 0025, for Spark 4.1)."""

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
    """Prepares a worker before it imports kernels, which halves the time of these imports."""
    collect_rarely()
    load_arrow()


def is_worker() -> bool:
    """Returns whether this process is one of Spark's Python workers."""
    return "pyspark.worker" in sys.modules


def begin_task() -> None:
    """Saves work of the worker before the next task and after this one.

    Before a task, a worker reads the directories of all archives again that it imports from, which takes a
    tenth of a second. It does so for existing finders, so these are dropped; they are created when needed.
    After a task, it collects garbage of all that was ever imported, which takes another tenth. Freezing these
    objects excludes them.
    """
    gc.freeze()
    _acknowledge_at_once()
    archives = [path for path, finder in sys.path_importer_cache.items() if isinstance(finder, zipimporter)]
    for path in archives:
        del sys.path_importer_cache[path]


def _acknowledge_at_once() -> None:
    """Makes Linux acknowledge the JVM's packets at once, until the next task.

    The JVM sends a task in small packets, each of which waits until the one before is acknowledged (Nagle's
    algorithm). To save packets, Linux delays that by 40 ms, which is most of a short task's time.
    """
    if not hasattr(socket, "TCP_QUICKACK"):
        return
    for descriptor in map(int, os.listdir("/proc/self/fd")):  # noqa: PTH208 - for each task
        # One descriptor was open only for the listing, and some are sockets of other kinds.
        with suppress(OSError):
            if S_ISSOCK(os.fstat(descriptor).st_mode):
                with socket.fromfd(descriptor, socket.AF_INET, socket.SOCK_STREAM) as connection:
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
