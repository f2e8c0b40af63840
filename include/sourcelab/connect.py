"""A Spark Connect server from pyspark's own jars: one warm Spark that every job attaches to."""

from __future__ import annotations

import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

from changeledger.config.folders import private_home
from changeledger.config.settings import Settings
from changeledger.spark.session import (
    FOR_MINUTES_JVM,
    SMALL_DATA,
    SMALL_DATA_JVM,
    as_properties,
    class_archive,
    jars,
    local_conf,
    spark_conf,
)
from sourcelab.process import Service, ServiceError, free_port
from sourcelab.services import java

_SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"

# Each query logs a hundred irrelevant lines: 155 MB in an hour. The server's class logs when it is ready.
_LOGGING = f"""\
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{{yy/MM/dd HH:mm:ss}} %p %c{{1}}: %m%n%ex
logger.server.name = {_SERVER}
logger.server.level = info
"""


class SparkConnectServer(Service):
    """Spark on all cores of this machine, or on a cluster, served on the loopback address without a login.

    Extensions and catalogs are static: they are set when the server starts, and are those of the lake in
    `settings`.
    """

    name = "spark"
    # What `spark-submit` runs.
    application: tuple[str, ...] = ("--class", _SERVER, "spark-internal")

    def __init__(
        self, settings: Settings, home: Path, *, master: str = "local[*]", lasting: bool = False
    ) -> None:
        """`lasting`: the server will live for hours, not for minutes."""
        super().__init__(home)
        self.settings = settings
        self.master = master
        self.lasting = lasting
        self.port = 0

    @property
    def remote(self) -> str:
        return f"sc://127.0.0.1:{self.port}"

    @property
    def connection(self) -> dict[str, str | int]:
        """The server's connection, as Airflow's JSON has it."""
        return {"conn_type": "spark_connect", "host": "sc://127.0.0.1", "port": self.port}

    @property
    def environment(self) -> dict[str, str]:
        """Variables that the server gets in addition to those of this process."""
        return {}

    @property
    def more_conf(self) -> dict[str, str]:
        """Additional Spark settings of this kind of server."""
        return {}

    def prepare(self) -> None:
        java()
        private_home(self.settings.home)
        self.port = free_port()
        # The file contains the catalog's password; everybody could read a command line.
        self._file.unlink(missing_ok=True)
        self._file.touch(0o600)
        self._file.write_text(self._properties(), "utf-8")
        self._logging.write_text(_LOGGING, "utf-8")

    def run(self) -> None:
        pyspark = pyspark_home()
        command = [
            # SPARK_REMOTE would make the process a client of the server. A folder of settings on the class
            # path would keep the class archive from being used.
            "env", "-u", "SPARK_REMOTE", f"SPARK_CONF_DIR={self.home}/no-conf", f"SPARK_HOME={pyspark}",
            # Otherwise its Python workers run whatever `python3` is on the PATH.
            f"PYSPARK_PYTHON={sys.executable}", "SPARK_LOCAL_IP=127.0.0.1",
            *(f"{name}={value}" for name, value in self.environment.items()),
            str(pyspark / "bin" / "spark-submit"),
            "--master", self.master, "--properties-file", str(self._file), *self.application,
        ]  # fmt: skip
        self.launch_until("Spark Connect server started at", command)

    @property
    def _file(self) -> Path:
        return self.home / "spark.properties"

    @property
    def _logging(self) -> Path:
        return self.home / "spark-log4j2.properties"

    def _properties(self) -> str:
        options = [SMALL_DATA_JVM, f'"-Dlog4j2.configurationFile={self._logging}"']
        options += class_archive(self.settings)
        # Over hours the thorough JIT compiler pays off: plans take half the time.
        if not self.lasting:
            options.append(FOR_MINUTES_JVM)
        conf = {
            **local_conf(self.settings),
            **spark_conf(self.settings),
            "spark.app.name": "changeledger",
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(self.port),
            "spark.sql.warehouse.dir": str(self.home / "data"),
            "spark.local.dir": str(self.home / "data"),
            "spark.driver.extraJavaOptions": " ".join(options),
            **SMALL_DATA,
            **self.more_conf,
        }
        if not self.master.startswith("local"):
            conf["spark.jars"] = ",".join(jars(self.settings))
        return as_properties(conf)

    def clean(self) -> None:
        self._file.unlink(missing_ok=True)
        shutil.rmtree(self.home / "data", ignore_errors=True)


def pyspark_home() -> Path:
    """Returns the folder of Spark. Raises ServiceError if pyspark is not installed."""
    # Not imported, since that takes a second.
    package = find_spec("pyspark")
    if package is None or package.origin is None:
        raise ServiceError("there is no Spark: the package pyspark is missing", "install requirements.txt")
    return Path(package.origin).parent
