"""Starts jobs as processes, each a fork of this one, which has imported what they need.

Reads one JSON object per line: {"id", "command", "environment", "log", "effects", "fault", "catalog",
"at_once", "clock"}. Writes {"id", "pid"} when the job runs and {"id", "code"} when it has ended (a signal as
-9).
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import select
import sys
import traceback
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn
from uuid import uuid4

from tests.faults.matrix.effects import Effects, Fault, install

# What every job needs, if only for its faults.
ALWAYS = (
    "sqlalchemy", "alembic.command", "pyiceberg.catalog.sql", "pyiceberg.catalog.rest",
    "pyiceberg.io.pyarrow", "pyspark.sql.connect.client.core",
    "changeledger.control", "changeledger.lake.iceberg", "changeledger.spark.session",
)  # fmt: skip
# What the stages need.
IMPORTED = (
    *ALWAYS, "pandas", "pyarrow", "grpc", "psycopg", "confluent_kafka",
    "pyspark.sql.connect.session", "pyspark.sql.connect.functions", "great_expectations",
    "changeledger.cli.main", "changeledger.job",
    "changeledger.stages.extract", "changeledger.stages.normalize",
    "changeledger.stages.reconcile", "changeledger.stages.audit", "changeledger.stages.publish",
    "changeledger.stages.maintain", "changeledger.stages.maintenance.releasing",
    "changeledger.cli.quarantine",
)  # fmt: skip
# Seconds that a job waits for a file that another process has locked; 30 in the product.
_BUSY_SECONDS = 3


def main() -> None:
    """Starts jobs until the end of the input. The arguments name the modules to import first."""
    for name in sys.argv[1:]:
        importlib.import_module(name)
    running: dict[int, str] = {}
    line = b""
    while True:
        if select.select([0], [], [], 0.02)[0]:
            part = os.read(0, 65536)
            if not part:
                break
            line += part
            *whole, line = line.split(b"\n")
            for reported in whole:
                _fork(json.loads(reported), running)
        _reap(running)


def _fork(spec: dict[str, Any], running: dict[int, str]) -> None:
    pid = os.fork()
    if pid == 0:
        try:
            _run(spec)
        finally:
            os._exit(1)
    running[pid] = spec["id"]
    print(json.dumps({"id": spec["id"], "pid": pid}), flush=True)


def _reap(running: dict[int, str]) -> None:
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        code = os.waitstatus_to_exitcode(status)
        print(json.dumps({"id": running.pop(pid), "code": code}), flush=True)


def _run(spec: dict[str, Any]) -> NoReturn:
    """Runs the job in its own process."""
    os.setsid()
    log = os.open(spec["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for number in (1, 2):
        os.dup2(log, number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.environ.clear()
    os.environ.update(spec["environment"])
    fault = Fault(**spec["fault"]) if spec.get("fault") else None
    effects = Effects(Path(spec["effects"]), fault)
    _prepare(spec)
    install(effects)
    effects.begin()
    sys.argv = spec["command"]
    code = _ended(sys.argv[0])
    effects.end()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _ended(name: str) -> int:
    try:
        if name.endswith(".py"):
            runpy.run_path(name, run_name="__main__")
        else:
            runpy.run_module(name, run_name="__main__")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 - as Python itself does at the end of a process
        traceback.print_exc()
        return 1
    return 0


def _prepare(spec: dict[str, Any]) -> None:
    """Sets what each process has of its own, and the cell's catalog instead of the server's."""
    from changeledger.control import base, database  # noqa: PLC0415
    from changeledger.lake import parallel  # noqa: PLC0415
    from changeledger.spark import rounds, session  # noqa: PLC0415

    base._PROCESS = uuid4().hex
    database.BUSY_SECONDS = _BUSY_SECONDS
    # One table after the other, so that the effects have one order.
    parallel._AT_ONCE = rounds._AT_ONCE = spec["at_once"]
    attached = session.spark_session

    def with_catalog(app_name: str, *arguments: float) -> Any:
        spark = attached(app_name, *arguments)
        for name, value in spec["catalog"].items():
            spark.conf.set(name, value)
        return spark

    session.spark_session = with_catalog
    if spec["clock"]:
        _shift(timedelta(seconds=spec["clock"]))


def _shift(by: timedelta) -> None:
    """Shifts the clock of this process, including that of SQLite, which runs in it."""

    class Shifted(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Shifted:
            return super().now(tz) + by

    def is_ours(module: ModuleType) -> bool:
        return module.__name__.startswith("changeledger.") and vars(module).get("datetime") is datetime

    for module in [m for m in sys.modules.values() if isinstance(m, ModuleType) and is_ours(m)]:
        # Models keep the true class, by which they recognize a datetime.
        if not module.__name__.endswith((".models", ".window", ".config")):
            vars(module)["datetime"] = Shifted

    from sqlalchemy import Engine, event  # noqa: PLC0415

    def strftime(form: str, moment: str) -> str:
        assert (form, moment) == ("%Y-%m-%dT%H:%M:%f", "now"), "as base.database_now asks"
        return (datetime.now(UTC) + by).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]

    @event.listens_for(Engine, "connect")
    def _own_clock(connection: Any, _record: Any) -> None:
        if hasattr(connection, "create_function"):
            connection.create_function("strftime", 2, strftime)


if __name__ == "__main__":
    main()
