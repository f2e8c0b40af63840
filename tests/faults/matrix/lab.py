"""What a cell works with: a source, a warm Spark, and states of one feed that are copied instantly.

The lake's files never change once written, so a state of the feed is a copy of two small databases: Iceberg's
catalog and the control store. Each cell has its own; the files of all tables are in one folder.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
from psycopg import sql

from changeledger.config.settings import PROJECT, Settings
from changeledger.spark.lake_catalog import spark_catalog
from sourcelab import sqlserver_cdc
from sourcelab.log import Log, simulate
from sourcelab.postgres import plain_url
from sourcelab.services import KafkaBroker, Postgres
from sourcelab.shared_workers import SharedWorkers
from sourcelab.tables import CUSTOMERS
from tests.faults.matrix.effects import Fault
from tests.faults.matrix.jobs import Job, Jobs, Place
from tests.faults.matrix.remote import RemoteLake

JARS = PROJECT / ".jars"
FEED, TABLE = "shop", "dbo.customers"
CHANGE_TABLE = '"cdc"."dbo_customers_CT"'
Windows = tuple[tuple[datetime, datetime], ...]
# Windows of the simulated log: 21 changes of the table, then 10, then the rest.
WINDOWS: Windows = tuple(
    (datetime.fromisoformat(start), datetime.fromisoformat(end))
    for start, end in (
        ("2020-01-01T00:00:00+00:00", "2024-03-01T08:00:40+00:00"),
        ("2024-03-01T08:00:40+00:00", "2024-03-01T08:01:34.780+00:00"),
        ("2024-03-01T08:01:34.780+00:00", "2024-03-01T09:00:00+00:00"),
        # Two days later, for messages whose clock was ahead.
        ("2024-03-01T09:00:00+00:00", "2024-03-03T09:00:00+00:00"),
    )
)
DISK = "size=1500m"
# A copy of the source that nobody is connected to, since only such a database can be copied.
_WHOLE = "whole"


class State(NamedTuple):
    """The folder of a feed's state: catalog and control store."""

    folder: Path

    @property
    def catalog(self) -> Path:
        return self.folder / "catalog.db"

    @property
    def control(self) -> Path:
        return self.folder / "control.db"

    def copy(self, to: Path) -> State:
        to.mkdir(parents=True, exist_ok=True)
        for file in (self.catalog, self.control):
            if file.exists():
                # Includes the content of the write-ahead log.
                with closing(sqlite3.connect(file)) as old, closing(sqlite3.connect(to / file.name)) as new:
                    old.backup(new)
                    new.execute("PRAGMA journal_mode=WAL")
        copied = State(to)
        copied.expect_lease(3600)
        return copied

    def expect_lease(self, seconds: float) -> None:
        """Makes a held lease expire in that many seconds, as if taken just now; below 0, it has expired."""
        if not self.control.exists():
            return
        with closing(sqlite3.connect(self.control, timeout=60)) as control:
            if not control.execute("SELECT 1 FROM sqlite_master WHERE name = 'leases'").fetchall():
                return
            moment = f"strftime('%Y-%m-%d %H:%M:%f', 'now', '{seconds:+.0f} seconds')"
            control.execute(f"UPDATE leases SET expires_at = {moment} WHERE holder <> ''")
            control.commit()


class Lab:
    """The services and folders. `folder` is for what stays, `disk` for what a disk can run out of.

    - `own_disk`: makes `disk` a small file system, if this process may mount one.
    - `log`: the source's log; by default the matrix's own.
    - `lake`: "s3" for a lake on S3 and a REST catalog.
    - `kafka`: a broker that others use, too.
    """

    def __init__(
        self,
        folder: Path,
        *,
        own_disk: bool,
        log: Log | None = None,
        windows: Windows = WINDOWS,
        lake: str = "disk",
        kafka: KafkaBroker | None = None,
    ) -> None:
        self.log = log or simulate(5, 24)
        self.windows = windows
        self._wants_own_disk = own_disk
        self.folder = folder.absolute()
        self.disk = self.folder / "disk"
        self.has_own_disk = False
        self._kafka, self._shares_kafka = kafka, kafka is not None
        self.remote = RemoteLake(JARS, self.folder, self.disk) if lake == "s3" else None

    def __enter__(self) -> Lab:
        for folder in (self.disk, self.folder / "logs", self.folder / "feeds", self.folder / "databases"):
            folder.mkdir(parents=True, exist_ok=True)
        self._mount()
        reported = {
            "feed": FEED,
            "dialect": "sqlserver_cdc",
            "database": "shop",
            "connection": "shop",
            "source": {},
            # One record of a small window cannot be read.
            "quarantine_limit": 1,
        }
        (self.folder / "feeds" / f"{FEED}.yaml").write_text(
            json.dumps({**reported, "tables": [{"table": TABLE}]})
        )
        self.settings = Settings(home=self.disk, feeds=self.folder / "feeds")
        if self.remote is not None:
            self.remote.__enter__()
            self.settings = self.settings.model_copy(update={"catalog": self.remote.catalog(self.disk)})
        self.jobs = Jobs(self.folder / "logs" / "jobs.log")
        self.source = Postgres(self.folder)
        self.source.__enter__()
        self._load()
        self.server = SharedWorkers(self.settings, self.folder)
        self.server.__enter__()
        return self

    @property
    def kafka(self) -> KafkaBroker:
        """The broker; its own is started on first use."""
        if self._kafka is None:
            self._kafka = KafkaBroker(self.settings.jars.with_name("kafka"), self.folder)
            self._kafka.__enter__()
        return self._kafka

    def __exit__(self, *_: object) -> None:
        self.jobs.close()
        if self._kafka is not None and not self._shares_kafka:
            self._kafka.__exit__(None, None, None)
        self.server.__exit__(None, None, None)
        self.source.__exit__(None, None, None)
        if self.remote is not None:
            self.remote.__exit__()
        if self.has_own_disk:
            subprocess.run(["umount", "-l", str(self.disk)], check=False)

    def _mount(self) -> None:
        """Creates an empty folder, or mounts a small disk."""
        if self.disk.is_mount():
            # The mount of a run that was killed.
            subprocess.run(["umount", "-l", str(self.disk)], check=False)
        shutil.rmtree(self.disk, ignore_errors=True)
        self.disk.mkdir(exist_ok=True)
        if self._wants_own_disk and os.geteuid() == 0:
            mount = ["mount", "-t", "tmpfs", "-o", DISK, "tmpfs", str(self.disk)]
            self.has_own_disk = subprocess.run(mount, capture_output=True, check=False).returncode == 0

    def _load(self) -> None:
        sqlserver_cdc.load(self.source.url, self.log)
        # Adds a record that cannot be read, in the second window.
        lsn = self.log.transactions[12].commit_lsn
        with psycopg.connect(plain_url(self.source.url), autocommit=True) as database:
            cursor = database.execute(
                f'SELECT * FROM {CHANGE_TABLE} WHERE "__$start_lsn" = %s LIMIT 1', (lsn,)
            )
            assert cursor.description is not None
            names = [d.name for d in cursor.description]
            row = dict(zip(names, cursor.fetchone() or (), strict=True))
            row |= {"__$operation": 9, "__$command_id": 99, "__$seqval": b"\xff" * 10}
            columns = ", ".join(f'"{n}"' for n in names)
            marks = ", ".join(["%s"] * len(names))
            values = [row[n] for n in names]
            database.execute(f"INSERT INTO {CHANGE_TABLE} ({columns}) VALUES ({marks})", values)
        with psycopg.connect(self.server_url, autocommit=True) as session:
            self._copy_database(session, self.source.database, _WHOLE)

    def source_rows(self, window: int) -> list[str]:
        """Returns the rows of the change table up to the window's end, named as in `dump.raw`."""
        names = [f"upper(encode(\"{name}\", 'hex'))" for name in ("__$start_lsn", "__$seqval")]
        names += [f'"{name}"::text' for name in ("__$operation", "__$command_id")]
        of_time = 'JOIN cdc.lsn_time_mapping ON start_lsn = "__$start_lsn" WHERE tran_end_time < %s'
        with psycopg.connect(plain_url(self.source.url)) as database:
            place = " || '/' || ".join(names)
            query = f"SELECT {place} FROM {CHANGE_TABLE} {of_time}"
            return [
                row[0] for row in database.execute(query, (self.windows[window - 1][1].replace(tzinfo=None),))
            ]

    def source_keys(self) -> set[int]:
        """Returns the keys of the table's final rows, from the simulated log."""
        return {key[0] for key in self.log.final_rows(CUSTOMERS)}

    def copied_source(self, name: str) -> str:
        """Copies the source's database for one cell, and returns its URL."""
        with psycopg.connect(self.server_url, autocommit=True) as session:
            self._copy_database(session, _WHOLE, name)
        return self.server_url.rpartition("/")[0] + f"/{name}"

    @staticmethod
    def _copy_database(session: psycopg.Connection[Any], template: str, name: str) -> None:
        names = sql.Identifier(name), sql.Identifier(template)
        session.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(*names))

    @property
    def server_url(self) -> str:
        """The URL of the source's server, not of a cell's database."""
        return plain_url(self.source.url).rpartition("/")[0] + "/postgres"

    def place(self, state: State, database: str = "", **variables: str) -> Place:
        connection = {**self.source.connection, **({"schema": database} if database else {})}
        catalog = self._catalog(state)
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("AIRFLOW", "CHANGELEDGER"))}
        return Place(
            {
                **kept,
                "PYTHONPATH": str(PROJECT / "include"),
                "SPARK_REMOTE": self.server.remote,
                "CHANGELEDGER_HOME": str(state.folder),
                "CHANGELEDGER_FEEDS": str(self.folder / "feeds"),
                "CHANGELEDGER_DATABASES": str(self.folder / "databases"),
                "CHANGELEDGER_CONTROL_URL": f"sqlite:///{state.control}",
                "CHANGELEDGER_CATALOG": json.dumps(catalog),
                "AIRFLOW_CONN_SHOP": json.dumps(connection),
                "PYTHONUNBUFFERED": "1",
                **variables,
            },
            spark_catalog(catalog),
        )

    def _catalog(self, state: State) -> dict[str, str]:
        if self.remote is not None:
            return self.remote.catalog(state.folder)
        uri = f"sqlite:///{state.catalog}?timeout=3"
        return {"type": "sql", "uri": uri, "warehouse": self.settings.warehouse}

    def stage(
        self, place: Place, folder: Path, stage: str, window: int, fault: Fault | None = None, **options: Any
    ) -> Job:
        start, end = self.windows[window - 1]
        times = ["--start", start.isoformat(), "--end", end.isoformat()]
        command = [str(PROJECT / "jobs" / f"{stage}.py"), "--feed", FEED, *times]
        return self.jobs.start(place, folder, command, fault, **options)

    def kill_spark(self) -> None:
        process = self.server._process
        assert process is not None
        process.kill()

    def restart_spark(self) -> None:
        """Restarts Spark at its address, after it was killed."""
        self.server.resume()

    @contextmanager
    def full_disk(self) -> Iterator[None]:
        """Leaves not a single byte free meanwhile."""
        assert self.has_own_disk
        filler = self.disk / "filler"
        with filler.open("wb", buffering=0) as file, suppress(OSError):
            for size in (1 << 20, 4096):
                with suppress(OSError):
                    while True:
                        file.write(b"\0" * size)
        try:
            yield
        finally:
            filler.unlink()

    @contextmanager
    def read_only(self, folder: Path) -> Iterator[None]:
        """Lets nobody, not even root, create anything below the folders of the feed's tables."""
        folders = [str(f) for f in folder.rglob("*") if f.is_dir()]
        subprocess.run(["chattr", "+i", *folders], check=True, capture_output=True)
        try:
            yield
        finally:
            subprocess.run(["chattr", "-i", *folders], check=True, capture_output=True)


def moment() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
