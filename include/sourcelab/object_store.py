"""A lake that is not on this machine's disk: an S3 server and Iceberg's REST catalog, both from jars."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from changeledger.config.settings import Settings
from changeledger.spark.session import as_properties
from sourcelab.process import Keystore, Service, ServiceError, free_port
from sourcelab.services import java

# Where the lake of the demo can be.
PLACES = ("disk", "s3")
BUCKET = "lake"
_REGION = "us-east-1"
_JVM = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_LOGGING = """\
<configuration>
  <appender name="out" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d %level %logger{20} %msg%n</pattern></encoder>
  </appender>
  <root level="info"><appender-ref ref="out"/></root>
</configuration>
"""


def _keep_secret(file: Path, members: Mapping[str, str]) -> None:
    file.unlink(missing_ok=True)
    file.touch(0o600)
    file.write_text(as_properties(members), "utf-8")


def _require(jars: Path) -> None:
    if not list(jars.glob("*.jar")):
        raise ServiceError(f"there are no jars in {jars}", "run `make demo LAKE=s3`, which fetches them")


class S3Server(Service):
    """S3Proxy in front of a folder, with one bucket and one user, whose signatures it checks."""

    name = "s3"

    def __init__(
        self, jars: Path, home: Path, objects: Path | None = None, *, keystore: Keystore | None = None
    ) -> None:
        """Describes a server that is not started yet.

        - `jars`: the folder of all the project's jars.
        - `objects`: the folder in which files stay. Without it, they are below `home` and removed at the end.
        - `keystore`: the identity that it presents over TLS.
        """
        super().__init__(home)
        self.keystore = keystore
        self.jars = jars.absolute() / "s3"
        self.objects = (objects or self.home / "data").absolute()
        self.key = "lake"
        self.secret = secrets.token_urlsafe(18)
        self.port = 0

    @property
    def endpoint(self) -> str:
        return f"{'http' if self.keystore is None else 'https'}://127.0.0.1:{self.port}"

    @property
    def members(self) -> dict[str, str]:
        """The connection settings, as pyiceberg's catalogs take them."""
        return {
            "s3.endpoint": self.endpoint,
            "s3.region": _REGION,
            "s3.access-key-id": self.key,
            "s3.secret-access-key": self.secret,
        }

    def prepare(self) -> None:
        _require(self.jars)
        self.clean()
        (self.objects / BUCKET).mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        (self.home / "logback.xml").write_text(_LOGGING, "utf-8")
        members = {
            "s3proxy.endpoint" if self.keystore is None else "s3proxy.secure-endpoint": self.endpoint,
            "s3proxy.authorization": "aws-v2-or-v4",
            "s3proxy.identity": self.key,
            "s3proxy.credential": self.secret,
            "jclouds.provider": "filesystem",
            "jclouds.filesystem.basedir": str(self.objects),
        }
        if self.keystore is not None:
            members["s3proxy.keystore-path"] = str(self.keystore.identity)
            members["s3proxy.keystore-password"] = self.keystore.password
        _keep_secret(self.home / "s3proxy.conf", members)

    def run(self) -> None:
        command = [
            java(), *_JVM, f"-Dlogback.configurationFile={self.home}/logback.xml", "-cp", f"{self.jars}/*",
            "org.gaul.s3proxy.Main", "--properties", str(self.home / "s3proxy.conf"),
        ]  # fmt: skip
        self.launch_until("ServerConnector", command)

    def clean(self) -> None:
        (self.home / "s3proxy.conf").unlink(missing_ok=True)
        shutil.rmtree(self.home / "data", ignore_errors=True)


class RestCatalog(Service):
    """Iceberg's REST catalog for a bucket of a running S3 server, with one user and a token.

    With `oauth2` the user has a secret, for which the server returns the token. With `vending`, whoever loads
    a table receives the store's credentials with it and needs none of their own.
    """

    name = "catalog"

    def __init__(  # noqa: PLR0913 - what a server of its kind may do
        self,
        jars: Path,
        home: Path,
        store: S3Server,
        *,
        vending: bool = False,
        oauth2: bool = False,
        many_below: Path | None = None,
    ) -> None:
        """`jars`: the folder of all the project's jars. Over TLS it presents the store's identity.

        With `many_below` it serves many catalogs: the one at `<uri>/a~b` is in `a/b/catalog.db` below that
        folder.
        """
        super().__init__(home)
        self.many_below = many_below
        self.jars = jars.absolute()
        self.store = store
        self.vending = vending
        self.token = secrets.token_urlsafe(18)
        self.secret = secrets.token_urlsafe(18) if oauth2 else None
        self.port = 0

    @property
    def settings(self) -> dict[str, str]:
        """The lake's `CHANGELEDGER_CATALOG`."""
        login = {"credential": f"lake:{self.secret}"} if self.secret else {"token": self.token}
        members = {"type": "rest", "uri": self._address, **login}
        return members | {"warehouse": self._warehouse} | ({} if self.vending else self.store.members)

    @property
    def _address(self) -> str:
        return f"{'http' if self.store.keystore is None else 'https'}://127.0.0.1:{self.port}"

    @property
    def _warehouse(self) -> str:
        return f"s3://{BUCKET}/warehouse"

    def prepare(self) -> None:
        _require(self.jars / "rest")
        self.clean()
        (self.home / "data").mkdir(parents=True)
        self.port = free_port()
        of_files = {**self.store.members, "client.region": _REGION, "s3.path-style-access": "true"}
        members = {
            "port": str(self.port),
            "token": self.token,
            **({"secret": self.secret} if self.secret else {}),
            "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
            "jdbc.schema-version": "V1",
            "warehouse": self._warehouse,
            "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
            **of_files,
        }
        if self.store.keystore is not None:
            members["keystore.path"] = str(self.store.keystore.identity)
            members["keystore.password"] = self.store.keystore.password
        if self.many_below is None:
            file = f"{self.home}/data/catalog.db"
            members["uri"] = f"jdbc:sqlite:{file}?journal_mode=WAL&busy_timeout=30000"
        else:
            members["root"] = str(self.many_below.absolute())
        if self.vending:
            members |= {f"vended.{name}": value for name, value in of_files.items()}
        _keep_secret(self.home / "catalog.properties", members)

    def run(self) -> None:
        folders = (self.jars / "rest", self.jars / "spark-s3")
        drivers = (self.jars / "spark").glob("sqlite-jdbc-*.jar")
        classes = ":".join([*(f"{folder}/*" for folder in folders), *map(str, drivers)])
        keystore = self.store.keystore
        command = [java(), *_JVM, *(keystore.trusting if keystore is not None else ())]
        source, members = Path(__file__).with_name("RestCatalog.java"), self.home / "catalog.properties"
        self.launch_until("REST catalog started", [*command, "-cp", classes, str(source), str(members)])

    def clean(self) -> None:
        (self.home / "catalog.properties").unlink(missing_ok=True)
        shutil.rmtree(self.home / "data", ignore_errors=True)


@contextmanager
def placed_lake(place: str, home: Path, settings: Settings, say: Callable[[str], None]) -> Iterator[Settings]:
    """Yields the settings of a lake at one of `PLACES`; this process's environment names it, too.

    The servers end on exit, and all that they store is deleted.
    """
    if place == "disk":
        yield settings
        return
    jars = settings.jars.parent
    with S3Server(jars, home) as store, RestCatalog(jars, home, store) as catalog:
        say(f"the lake is on S3 at {store.endpoint}, its REST catalog at {catalog.settings['uri']}")
        os.environ["CHANGELEDGER_CATALOG"] = json.dumps(catalog.settings)
        yield Settings()
