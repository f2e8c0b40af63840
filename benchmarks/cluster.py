"""A standalone cluster for the line: a master, workers with one core each, and a Connect server on them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from changeledger.config.settings import Settings
from sourcelab.connect import SparkConnectServer
from sourcelab.standalone import Master, Worker


@contextmanager
def cluster(home: Path, workers: int) -> Iterator[Mapping[str, str]]:
    """Yields the variables by which a process attaches to the cluster.

    Without workers, nothing is started and there are no variables. The cluster's processes are not
    descendants of the measured one, so their CPU seconds are not counted.
    """
    if not workers:
        yield {}
        return
    with ExitStack() as started:
        python = Path(sys.executable)
        master = started.enter_context(Master(home / "master", "master", python))
        for number in range(workers):
            started.enter_context(Worker(home / f"worker-{number}", f"worker {number}", python, master))
        server = SparkConnectServer(Settings(home=home), home / "server", master=master.url)
        yield {"SPARK_REMOTE": started.enter_context(server).remote}
