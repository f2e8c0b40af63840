"""This machine itself is reached without a proxy."""

from __future__ import annotations

import os

_NAMES = ("127.0.0.1", "localhost", "::1")


def reach_directly() -> None:
    """Add this machine to what `no_proxy` excepts, for this process and those that it starts.

    Otherwise the clients of Spark Connect, of a schema registry and of Airflow ask the proxy of `http_proxy`
    for it too, some of them for minutes.
    """
    present = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    names = [name.strip() for name in present.split(",") if name.strip()]
    # A star stands for all, and only alone.
    if "*" not in names:
        names += [name for name in _NAMES if name not in names]
    # Each client reads one of them.
    os.environ["no_proxy"] = os.environ["NO_PROXY"] = ",".join(names)
