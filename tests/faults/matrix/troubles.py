"""Troubles from outside for a process: each begins on enter, and is over on exit."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

from tests.faults.matrix.operator import Operator

# These need a disk that the lab was allowed to mount.
OF_DISKS = ("disk_full", "read_only")
_BACK_AFTER_SECONDS = 3.0


@contextmanager
def _spark_killed(who: Operator) -> Iterator[None]:
    who.lab.kill_spark()
    try:
        yield
    finally:
        who.lab.restart_spark()


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    with closing(sqlite3.connect(file, timeout=20)) as other:
        other.isolation_level = None
        other.execute("BEGIN EXCLUSIVE")
        yield


@contextmanager
def _refused(who: Operator) -> Iterator[None]:
    assert who.stores is not None
    who.stores.refuse()
    try:
        yield
    finally:
        who.stores.accept()


@contextmanager
def _restarted(who: Operator) -> Iterator[None]:
    assert who.stores is not None
    who.stores.restart()
    try:
        yield
    finally:
        time.sleep(_BACK_AFTER_SECONDS)
        who.stores.accept()


TROUBLES: dict[str, Callable[[Operator], AbstractContextManager[None]]] = {
    "spark_killed": _spark_killed,
    "control_locked": lambda who: _locked(who.state.control),
    "catalog_locked": lambda who: _locked(who.state.catalog),
    "stores_refused": _refused,
    "stores_restarted": _restarted,
    "disk_full": lambda who: who.lab.full_disk(),
    "read_only": lambda who: who.lab.read_only(who.lab.disk / "warehouse" / "shop"),
}
