"""Set-up of a Spark worker at the start of a task."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest

from changeledger.spark.worker_start import begin_task

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems do not wait")


def descriptors() -> set[Path]:
    return set(Path("/proc/self/fd").iterdir())


def test_packets_are_acknowledged_at_once_and_no_descriptor_stays_open() -> None:
    """Holds whatever other descriptors the process has."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()),
        server.accept()[0] as worker,
        socket.socketpair()[0],
        Path(os.devnull).open("rb"),
    ):
        worker.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
        before = descriptors()
        begin_task()
        assert worker.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK) == 1
        assert descriptors() == before
