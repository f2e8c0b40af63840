"""The Spark session, built in this one place: `spark-submit`, plain Python, or Spark Connect."""

from __future__ import annotations

import atexit
import os
import re
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from changeledger.config.folders import private_home
from changeledger.config.settings import Settings
from changeledger.model.errors import ConfigError
from changeledger.spark import redaction
from changeledger.spark.lake_catalog import is_member, is_on_s3, spark_catalog
from changeledger.spark.workers import send_package

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def spark_conf(settings: Settings) -> dict[str, str]:
    """Everything that the jobs expect of a Spark application or of a Connect server's start.

    Holds the catalog's members (`is_member`), which may be secrets: never on a command line.
    """
    extensions = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
    of_lake = {redaction.SETTING: redaction.regex(), **spark_catalog(settings.catalog)}
    silent = _SILENT if settings.redact_values else {}
    return {"spark.sql.extensions": extensions, **of_lake, **_SQL, **silent}


# Spark logs the error of each task, which may quote a value of a row. The driver gets it as an exception.
_SILENT = {"spark.log.level": "FATAL"}


# What the jobs expect of a session, whatever its catalog.
_SQL = {
    "spark.sql.session.timeZone": "UTC",
    # Bad casts must surface; where a value may be bad, the code says try_cast and quarantines.
    "spark.sql.ansi.enabled": "true",
    # JSON members can occur twice; the last one counts.
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    # A column may be called `${x}`: names are in SQL text, and mean themselves.
    "spark.sql.variable.substitute": "false",
    # A JSON member of another type makes the whole message malformed, not the member NULL.
    "spark.sql.json.enablePartialResults": "false",
    # A JDBC column of varchar(n) is text: Spark cannot overwrite a partition from its own char types.
    "spark.sql.legacy.charVarcharAsString": "true",
    # The optimizer's constraints grow exponentially with the aliases of a wide table's decoding:
    # minutes of planning, for filters that none of these queries gains from.
    "spark.sql.constraintPropagation.enabled": "false",
    # Constants in what a source is asked were computed before. One that cannot be (`id = 'none'` of a bigint,
    # inside an aggregate) would be computed again without end, by an optimizer that nothing interrupts.
    "spark.sql.optimizer.datasourceV2ExprFolding": "false",
    # The JVM compiles no method of more than 8000 bytes: what Spark fuses beyond that runs interpreted.
    "spark.sql.codegen.hugeMethodLimit": "8000",
    # Spark asks for a batch's size before each row that it hands to Python, and to know it, all columns. Of
    # wide rows that took two thirds of the JVM's time. Rows are counted instead: `for_rows_of`.
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
    "spark.ui.showConsoleProgress": "false",
    # Notes the caller's line at every call on a Column: two thirds of the time to build a wide plan.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}

# For small data, where preparing a query takes longer than running it.
SMALL_DATA = {
    # Compiling a plan takes longer than running it uncompiled.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Planned once: there is nothing to gain from looking at each shuffle's size.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    # Drawing plans for Spark's UI in full took a fifth of all processor time.
    "spark.sql.ui.explainMode": "simple",
    # Of each node one name: the columns of wide plans still took a tenth of the driver's.
    "spark.sql.debug.maxToStringFields": "1",
}


def for_small_data(spark: SparkSession, *, small: bool = True) -> None:
    """Prepare the session's queries for small data; or as the application is configured, for much."""
    for name, value in SMALL_DATA.items():
        if small:
            spark.conf.set(name, value)
        else:
            spark.conf.unset(name)


# Of Spark's rows at once to Python, so many, or so many bytes of what is packed in files.
_MOST_AT_ONCE, _MOST_BYTES = 10_000, 16 << 20


def for_rows_of(spark: SparkSession, rows: int, packed: int) -> None:
    """Hand rows to Python in batches that are not too large. `packed`: how many bytes so many rows have."""
    at_once = max(1, min(_MOST_AT_ONCE, _MOST_BYTES * max(rows, 1) // max(packed, 1)))
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(at_once))


# Room for compiled code: each plan brings its own, and a JVM whose room is full compiles nothing any more.
# With the first compiler alone the usual room is a fifth, which five windows of 100,000 rows fill.
_CODE = "-XX:ReservedCodeCacheSize=512m"
# And for the JVM of small data. Half of the memory is for what is young, as all is that plans leave. The pool
# in which Iceberg reads manifests is polled every 10 ms, which is longer than reading those of small tables.
SMALL_DATA_JVM = f"{_CODE} -XX:+UseSerialGC -XX:NewRatio=1 -Diceberg.scan.plan-in-worker-pool=false"
# A JVM only hands on what kernels do. One that ends soon does without the second compiler, which took a fifth
# of all processor time.
FOR_MINUTES_JVM = f"{_CODE} -XX:TieredStopAtLevel=1"
# A driver of this machine alone, for one job. To read an event of 10 MB takes more than Spark's 1 GB; with
# what is not heap, the process stays below 4 GB.
_LOCAL = {
    "spark.driver.memory": "3400m",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    # Rows travel packed: to compress them again took a JVM second of a million.
    "spark.shuffle.compress": "false",
}


# In place of a member of the catalog that a session gets when it is there.
_LATER = "***"


def as_properties(conf: Mapping[str, str]) -> str:
    """The settings as text of a Java properties file: where a command line would show them.

    There a backslash escapes, and a leading blank would be skipped.
    """
    lines = []
    for name, value in conf.items():
        text = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
        lines.append(f"{name} \\{text}\n" if text[:1].isspace() else f"{name} {text}\n")
    return "".join(lines)


# What a process that brings its own Spark (local[*]) needs beside; a cluster's own defaults stand elsewhere.
def local_conf(settings: Settings) -> dict[str, str]:
    return {
        "spark.driver.extraClassPath": os.pathsep.join(class_path(settings)),
        **_LOCAL,
        "spark.driver.extraJavaOptions": " ".join([FOR_MINUTES_JVM, *_collector(), *class_archive(settings)]),
        # Two waves for two cores; the default of 200 costs more than it brings on one machine.
        "spark.sql.shuffle.partitions": str(4 * (os.cpu_count() or 2)),
    }


def jars(settings: Settings) -> list[str]:
    """The jars beside Spark's own; those for S3 where the lake is there.

    Raises ConfigError when they have not been resolved.
    """
    folders = _jar_folders(settings) if is_on_s3(settings.catalog) else [settings.jars]
    by_folder = {folder: sorted(map(str, folder.glob("*.jar"))) for folder in folders}
    for folder, files in by_folder.items():
        if not files:
            raise ConfigError(
                f"no jars in {folder}",
                "run `changeledger jars`, which fetches them, or set CHANGELEDGER_JARS",
            )
    return [jar for files in by_folder.values() for jar in files]


def class_path(settings: Settings) -> list[str]:
    """`jars` for a JVM of this machine, and those for S3 wherever they are.

    An archive of classes belongs to one class path. In `spark.jars`, whose classes are in none, each would be
    looked for in all of Spark's own jars first, at each task.
    """
    jars(settings)
    return [str(jar) for folder in _jar_folders(settings) for jar in sorted(folder.glob("*.jar"))]


def _jar_folders(settings: Settings) -> list[Path]:
    return [settings.jars, settings.jars.with_name(f"{settings.jars.name}-s3")]


def _collector() -> list[str]:
    """Of garbage: none where the environment has chosen one, since a JVM refuses two.

    What the JVM hands on are large arrays that live for a moment. The usual collector marks the heap beside
    it again and again, which took a tenth of the JVM's time.
    """
    chosen = " ".join(os.environ.get(name, "") for name in ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS"))
    return [] if re.search(r"-XX:\+Use\w+GC\b", chosen) else ["-XX:+UseParallelGC"]


def class_archive(settings: Settings) -> list[str]:
    """The option of a JVM that maps the classes which the set-up has archived; none where it has not.

    It saves half of Spark's start. A JVM of other jars says nothing and goes without.
    """
    archives = settings.jars.glob("classes-*.jsa")
    return [f'"-XX:SharedArchiveFile={archive}" -Xlog:cds=off' for archive in archives][:1]


def spark_session(app_name: str, patience: float = 30.0) -> SparkSession:
    """The session of this process.

    `SPARK_REMOTE` (`sc://host:port`) attaches to a Connect server, whose start has set what is static;
    otherwise the application's own, under whatever master `spark-submit` or the environment names.

    Raises SparkUnavailable if no server answers for `patience` seconds.
    """
    from pyspark.sql import SparkSession  # noqa: PLC0415 - seconds to import, and not needed by DAG files

    _check_versions()
    settings, remote = Settings(), os.environ.get("SPARK_REMOTE")
    if settings.redact_values:
        redaction.silence_clients()
    if remote:
        return _attached(remote, patience)
    private_home(settings.home)
    builder = SparkSession.builder.appName(app_name)
    conf = spark_conf(settings)
    # Under spark-submit the launcher has set the master and the jars before this process began.
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        builder = builder.master("local[*]")
        # Else Spark's Python workers are whatever `python3` is on the PATH.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        conf = {**local_conf(settings), **conf}
    # The builder's settings end on the command line of the JVM that it starts; a catalog reads its own at
    # its first use. Spark's event log hides those whose names the application had at its start.
    members = {name: value for name, value in conf.items() if is_member(name)}
    for name, value in conf.items():
        builder = builder.config(name, _LATER if name in members else value)
    spark = builder.getOrCreate()
    for name, value in members.items():
        spark.conf.set(name, value)
    if not re.fullmatch(r"local(\[.*])?", str(spark.conf.get("spark.master"))):
        send_package(spark)
    return spark


def _attached(remote: str, patience: float) -> SparkSession:
    from pyspark.sql import SparkSession  # noqa: PLC0415 - as above

    from changeledger.spark.remote import require_answer  # noqa: PLC0415 - as above

    require_answer(remote, patience)
    _allow_deep_plans()
    spark = SparkSession.builder.remote(remote).getOrCreate()
    # At exit pyspark 4.1 sends the server a command, and tries for ten minutes if that is gone. Over a closed
    # channel it fails at once. What is registered last is called first.
    atexit.register(spark.client.close)  # type: ignore[operator]
    send_package(spark)
    return spark


def _allow_deep_plans() -> None:
    """Plans go to the server as protobuf, whose Python side refuses more than 100 levels; a call takes two.

    The server's own limit is higher: spark.connect.grpc.marshallerRecursionLimit.
    """
    from google.protobuf.internal import api_implementation  # type: ignore[import-untyped]  # noqa: PLC0415

    if api_implementation.Type() == "upb":
        api_implementation._c_module.SetAllowOversizeProtos(True)


def _check_versions() -> None:
    """Both packages install the folder `pyspark/`: with two versions it is a mixture of both."""
    full, client = version("pyspark"), version("pyspark-client")
    if full != client:
        raise ConfigError(
            f"pyspark {full} and pyspark-client {client} overwrite each other's files",
            "install the locked requirements.txt again, into a new environment",
        )
