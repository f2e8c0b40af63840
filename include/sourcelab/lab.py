"""What the demo and `make up` share: their own folder, the sources, and one log for all of them."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import psycopg
from rich.console import Console

from changeledger.config.folders import private, private_home
from changeledger.config.settings import PROJECT, Settings
from sourcelab import base_tables, ces, debezium, qlik_messages, qlik_tables, sqlserver_cdc
from sourcelab.log import Log
from sourcelab.messages import NotWritten, produce
from sourcelab.process import Service, ServiceError
from sourcelab.services import KafkaBroker, Postgres

# Prefixes of variables by which a user's own Airflow, Spark or lake would affect this one.
_FOREIGN = ("AIRFLOW", "_AIRFLOW", "CHANGELEDGER_", "SPARK_", "PYSPARK_")
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "grpc_proxy")


class SourceLost(Exception):
    """A part of the source cannot be written at present."""


class Progress:
    """Prints progress, each line with the seconds since the start."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._begun = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._begun

    def say(self, text: str) -> None:
        self.console.print(f"[dim]{self.seconds:6.1f} s[/]  {text}", highlight=False, soft_wrap=True)


@contextmanager
def own_folder(name: str) -> Iterator[tuple[Path, Settings]]:
    """Yields the empty folder of that name below the project's data, and the settings of a lake in it.

    Raises ServiceError if another process is running there.
    """
    home = PROJECT / ".changeledger" / name
    private_home(home.parent)
    with home.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ServiceError(
                f"another `make {name}` is running in {home}", "wait for it, or end it"
            ) from None
        shutil.rmtree(home, ignore_errors=True)
        private(home)
        # Everything is on this machine, and Airflow's client fails if it lacks a package for the proxy.
        for variable in [v for v in os.environ if v.startswith(_FOREIGN) or v.lower() in _PROXIES]:
            del os.environ[variable]
        os.environ["CHANGELEDGER_HOME"] = str(home)
        yield home, Settings()


def open_lake(remote: str) -> None:
    """Attaches this process to the server, and makes the lake's catalog create its tables.

    The first use creates them: two feeds that first used a new catalog at the same moment would both do it.
    """
    from changeledger.spark.session import spark_session  # noqa: PLC0415 - takes seconds to import

    os.environ["SPARK_REMOTE"] = remote
    spark_session("changeledger demo").sql("SHOW NAMESPACES IN lake").collect()


class Sources:
    """The systems that write the same log: two kinds of change tables and three kinds of messages."""

    def __init__(self, home: Path) -> None:
        self.kafka = KafkaBroker(PROJECT / ".jars" / "kafka", home)
        self.postgres = Postgres(home)
        # The number of transactions that `load` wrote, and the number that each writer has reached since.
        self._loaded = 0
        self._written: dict[str, int] = {}

    @property
    def services(self) -> tuple[Service, ...]:
        return self.kafka, self.postgres

    @property
    def connections(self) -> Mapping[str, Mapping[str, Any]]:
        """The sources' connections, by the names that the feeds use."""
        return {
            "shop_sqlserver": self.postgres.connection,
            "shop_qlik_target": self.postgres.connection,
            "shop_kafka": {"conn_type": "kafka", "extra": {"bootstrap.servers": self.kafka.bootstrap}},
        }

    def load(self, log: Log, to_tx: int) -> int:
        """Writes all transactions before `to_tx`, and returns the number of messages."""
        base_tables.load(self.postgres.url, log, to_tx)
        sqlserver_cdc.load(self.postgres.url, log, to_tx)
        qlik_tables.load(self.postgres.url, log, to_tx)
        self._loaded = to_tx
        return self._produce(log, 0, to_tx)

    def append(self, log: Log, to_tx: int) -> None:
        """Writes the transactions before `to_tx` that are not written yet.

        Raises SourceLost if a part cannot be written; call it again then. Messages that reached a lost broker
        may be written twice, as a connector does.
        """
        url = self.postgres.url
        writers: dict[str, Callable[[int], object]] = {
            "the tables": lambda begin: base_tables.append(url, log, begin, to_tx),
            "SQL Server's change tables": lambda begin: sqlserver_cdc.append(url, log, begin, to_tx),
            "Qlik's change tables": lambda begin: qlik_tables.append(url, log, begin, to_tx),
            "the messages": lambda begin: self._produce(log, begin, to_tx),
        }
        for what, write in writers.items():
            begin = self._written.get(what, self._loaded)
            if begin == to_tx:
                continue
            try:
                write(begin)
            except (psycopg.Error, NotWritten) as error:
                raise SourceLost(f"{what} cannot be written: {' '.join(str(error).split())[:200]}") from error
            self._written[what] = to_tx

    def _produce(self, log: Log, from_tx: int, to_tx: int) -> int:
        messages = chain(
            debezium.messages(log, schemas=True, snapshot=False, from_tx=from_tx, to_tx=to_tx),
            ces.messages(log, split_at=SEGMENT, from_tx=from_tx, to_tx=to_tx),
            qlik_messages.messages(log, envelope=True, snapshot=False, from_tx=from_tx, to_tx=to_tx),
        )
        return produce(self.kafka.bootstrap, messages)


# Characters of `data` in one message: the events of the widest table need several messages.
SEGMENT = 8_000
