"""External effects of a job's process, and faults between them.

An effect is a write of Spark's client (every command except queries), a commit of pyiceberg's catalog, or a
writing transaction of the control store. Effects are intercepted where they leave the process (Spark
Connect's client, pyiceberg and SQLAlchemy's driver), so none can be missed, and the product's code is unaware
of them.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

LAKE, CONTROL = "lake", "control"
_READS = re.compile(r"\s*(\(|SELECT|WITH|SHOW|DESCRIBE|EXPLAIN|SET)\b", re.IGNORECASE)
_WRITES = re.compile(r"\s*(INSERT INTO|UPDATE|DELETE FROM|CREATE TABLE|ALTER TABLE|DROP TABLE)\s+(\S+)", re.I)
# Names that differ from run to run: branches, snapshots, tags.
_RUN_NAMES = (
    (r"\b(branch_)?run_\w+", "run"),
    (r"\b(release|displaced)_\d+", r"\1"),
    (r"\d{6,}", "n"),
    (r"\blake\.shop\.", ""),
)
_MEETING_SECONDS = 120


class Fault(NamedTuple):
    """A fault: `do` at effect `at`, counted from 1; one more than the number of effects means after the last.

    - kill, kill_during: SIGKILL before the effect, or while it happens.
    - refuse, lose: the client gets an error instead of the effect, or after it.
    - stop: SIGSTOP.
    - meet: waits for the file `go` once the previous effect is done; hold: when this one is about to happen.
    - orphan: like meet, and nobody reads what the process prints from then on.

    With a `label`, only effects with that label are counted.
    """

    do: str
    at: int
    after: float = 0.0
    label: str = ""


class Effects:
    """Numbers the effects of this process, writes each to `log`, and performs the fault."""

    def __init__(self, log: Path, fault: Fault | None) -> None:
        self._log, self._fault = log, fault
        self._count = 0
        self._labels: Counter[str] = Counter()
        self._lock = threading.Lock()

    def begin(self) -> None:
        self._between(0)

    def end(self) -> None:
        """Marks that the last effect is done and the process is about to end."""
        if self._is("kill", self._count + 1):
            _kill()

    @contextmanager
    def effect(
        self, kind: str, label: str, error: Callable[[str], Exception] | None = None
    ) -> Iterator[None]:
        """Runs one effect. `error`: makes the client's error from a reason; by default that of the kind."""
        with self._lock:
            self._count += 1
            self._labels[label] += 1
            number, of_label = self._count, self._labels[label]
        with self._log.open("a") as file:
            file.write(json.dumps({"at": number, "kind": kind, "label": label}) + "\n")
        if self._is("kill", number):
            _kill()
        if self._is("refuse", number):
            raise (error or partial(_error, kind))("the server refuses the connection")
        if self._is("hold", number) or self._is("hold", of_label, label):
            self._meet()
        if self._is("kill_during", number) and self._fault is not None:
            threading.Timer(self._fault.after, _kill).start()
        yield
        if self._is("lose", number):
            raise (error or partial(_error, kind))("the server closed the connection before it answered")
        self._between(number)

    def _between(self, done: int) -> None:
        if self._is("stop", done + 1):
            os.kill(os.getpid(), signal.SIGSTOP)
        if self._is("meet", done + 1) or self._is("orphan", done + 1):
            self._meet()
        if self._is("orphan", done + 1):
            _lose_output()

    def _meet(self) -> None:
        self._log.with_suffix(".here").touch()
        for _ in range(_MEETING_SECONDS * 20):
            if self._log.with_suffix(".go").exists():
                break
            time.sleep(0.05)

    def _is(self, do: str, at: int, label: str = "") -> bool:
        fault = self._fault
        return fault is not None and (fault.do, fault.at, fault.label) == (do, at, label)


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _lose_output() -> None:
    """Simulates that the supervisor at the other end of the pipe is gone."""
    reads, writes = os.pipe()
    os.close(reads)
    for number in (1, 2):
        os.dup2(writes, number)


def _error(kind: str, reason: str) -> Exception:
    """Returns the error that the driver raises for this failure of its server."""
    if kind == CONTROL:
        return sqlite3.OperationalError(f"injected: {reason}")
    from pyspark.errors.exceptions.connect import SparkConnectGrpcException  # noqa: PLC0415 - seconds

    return SparkConnectGrpcException(f"injected: [UNAVAILABLE] {reason}")


def install(effects: Effects) -> None:
    _install_in_spark(effects)
    _install_in_catalog(effects)
    _install_in_sqlalchemy(effects)


def _install_in_spark(effects: Effects) -> None:
    from pyspark.sql.connect.client.core import SparkConnectClient  # noqa: PLC0415 - seconds

    def counting(true: Callable[..., Any]) -> Callable[..., Any]:
        def execute(self: Any, command: Any, *arguments: Any, **named: Any) -> Any:
            label = written(command)
            if label is None:
                return true(self, command, *arguments, **named)
            with effects.effect(LAKE, label):
                return true(self, command, *arguments, **named)

        return execute

    SparkConnectClient.execute_command = counting(SparkConnectClient.execute_command)  # type: ignore


def _install_in_catalog(effects: Effects) -> None:
    from pyiceberg.catalog.rest import RestCatalog  # noqa: PLC0415 - seconds
    from pyiceberg.catalog.sql import SqlCatalog  # noqa: PLC0415 - seconds

    def counting(true: Callable[..., Any]) -> Callable[..., Any]:
        def commit_table(self: Any, table: Any, requirements: Any, updates: Any) -> Any:
            with effects.effect(LAKE, committed(table.name()[-1], updates), _catalog_error):
                return true(self, table, requirements, updates)

        return commit_table

    def creating(true: Callable[..., Any]) -> Callable[..., Any]:
        def create_table(self: Any, identifier: Any, *arguments: Any, **named: Any) -> Any:
            with effects.effect(LAKE, f"create {identifier[-1]}", _catalog_error):
                return true(self, identifier, *arguments, **named)

        return create_table

    for kind in (SqlCatalog, RestCatalog):
        kind.commit_table = counting(kind.commit_table)  # type: ignore[method-assign]
        kind.create_table = creating(kind.create_table)  # type: ignore[method-assign]


def committed(table: str, updates: Any) -> str:
    """Returns what a commit changes in a table: rows or refs."""
    of_refs = [update for update in updates if hasattr(update, "ref_name")]
    # A commit that moves main also drops the run's branch.
    moved = [update for update in of_refs if update.action != "remove-snapshot-ref"]
    names = sorted({update.ref_name for update in moved or of_refs})
    verb = "append" if any(update.action == "add-snapshot" for update in updates) else "set"
    verb = "drop" if of_refs and not moved else verb
    return same(f"{verb} {table} {' '.join(names)}")


def _catalog_error(reason: str) -> Exception:
    from sqlalchemy.exc import OperationalError  # noqa: PLC0415

    return OperationalError("UPDATE iceberg_tables", {}, sqlite3.OperationalError(f"injected: {reason}"))


def written(command: Any) -> str | None:
    """Returns what a command writes, in words that are the same in every run, or None for a query."""
    kind = command.WhichOneof("command_type")
    if kind == "write_operation_v2":
        write = command.write_operation_v2
        mode = type(write).Mode.Name(write.mode).removeprefix("MODE_").replace("_", " ").lower()
        return same(f"{mode} {write.table_name}")
    if kind == "write_operation":
        return same(f"write {command.write_operation.table.table_name or command.write_operation.path}")
    if kind != "sql_command":
        return None
    text = command.sql_command.sql or command.sql_command.input.sql.query
    return None if not text or _READS.match(text) else same(text)


def same(text: str) -> str:
    """Returns the beginning of a statement, without names of the run."""
    for pattern, word in _RUN_NAMES:
        text = re.sub(pattern, word, text)
    text = " ".join(text.replace("`", "").split())
    return re.split(r" \(| USING | AS OF | ON | SET | WHERE ", text)[0][:80]


def _install_in_sqlalchemy(effects: Effects) -> None:
    from sqlalchemy import Engine, event  # noqa: PLC0415 - not for the choice of cells
    from sqlalchemy.engine.default import DefaultDialect  # noqa: PLC0415

    committed = DefaultDialect.do_commit

    @event.listens_for(Engine, "before_cursor_execute")
    def _note(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        write = _WRITES.match(statement)
        if write:
            verb = write[1].split()[0].lower()
            connection.info.setdefault("wrote", []).append(f"{verb} {write[2]}".replace('"', ""))

    @event.listens_for(Engine, "rollback")
    def _forget(connection: Any) -> None:
        connection.info.pop("wrote", None)

    def do_commit(self: Any, dbapi_connection: Any) -> None:
        wrote = dbapi_connection.info.pop("wrote", None)
        if not wrote:
            committed(self, dbapi_connection)
            return
        if any("iceberg_" in what for what in wrote):
            # A write of the lake's catalog is part of a commit, which is the effect.
            committed(self, dbapi_connection)
            return
        with effects.effect(CONTROL, ", ".join(dict.fromkeys(wrote))):
            committed(self, dbapi_connection)

    DefaultDialect.do_commit = do_commit  # type: ignore[method-assign]
