"""Builds the Spark session, under `spark-submit`, in plain Python, or over Spark Connect."""

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
    """Returns all settings that the jobs expect of a Spark application or a Connect server.

    They include the catalog's members (`is_member`), which may be secrets: never put them on a command line.
    """
    extensions = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
    of_lake = {redaction.SETTING: redaction.regex(), **spark_catalog(settings.catalog)}
    # Spark logs the error of each task, which may quote values of rows. The driver still gets it as an
    # exception.
    silent = {"spark.log.level": "FATAL"} if settings.redact_values else {}
    return {"spark.sql.extensions": extensions, **of_lake, **_QUIET, **SQL, **silent}


# Settings of an application for speed.
_QUIET = {
    "spark.ui.showConsoleProgress": "false",
    # Records the caller's line at every call on a Column: two thirds of the time to build a wide plan.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}

# Settings that the jobs expect of a session, whatever its catalog. Spark's defaults are among them where
# others in `spark-defaults.conf` would change what the jobs read or write.
SQL = {
    "spark.sql.session.timeZone": "UTC",
    # Bad casts must fail. If a value may be bad, the code uses try_cast and quarantines the record.
    "spark.sql.ansi.enabled": "true",
    # If a JSON member occurs twice, the last one counts.
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    # Fields of structs have names such as `offset`, and stand without quotes in type names.
    "spark.sql.ansi.enforceReservedKeywords": "false",
    # Groups are known by their columns.
    "spark.sql.retainGroupColumns": "true",
    # A column may be called `${x}`: names in SQL text must not be substituted.
    "spark.sql.variable.substitute": "false",
    # A JSON member of another type makes the whole message malformed, not the member NULL.
    "spark.sql.json.enablePartialResults": "false",
    # A JDBC column of varchar(n) is text: Spark cannot overwrite a partition from its own char types.
    "spark.sql.legacy.charVarcharAsString": "true",
    "spark.sql.preserveCharVarcharTypeInfo": "false",
    # The optimizer's constraints grow exponentially with the aliases of a wide table: minutes of planning,
    # for filters from which none of these queries gains.
    "spark.sql.constraintPropagation.enabled": "false",
    # Constants in pushed-down filters are folded already. One that cannot be (`id = 'none'` of a bigint, in
    # an aggregate) would be retried without end, in an optimizer that cannot be interrupted.
    "spark.sql.optimizer.datasourceV2ExprFolding": "false",
    # The JVM does not compile methods of more than 8000 bytes: larger generated code would run interpreted.
    "spark.sql.codegen.hugeMethodLimit": "8000",
    # With a byte limit, Spark sums the sizes of all columns before each row that it hands to Python. For wide
    # rows that took two thirds of the JVM's time. Batches are limited by rows instead: `for_rows_of`.
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
}

# In SQL text, names and keys are literals with escaped quotes and backslashes. Spark logs a warning whenever
# this is set, so it is set only where it differs.
_RAW_LITERALS = "spark.sql.parser.escapedStringLiterals"

# Settings for small data, for which preparing a query takes longer than running it.
SMALL_DATA = {
    # Compiling a plan takes longer than running it uncompiled.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Replanning by the size of each shuffle gains nothing.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    # Formatting full plans for Spark's UI took a fifth of all processor time.
    "spark.sql.ui.explainMode": "simple",
    # One name per plan node: the columns of wide plans still took a tenth of the driver's time.
    "spark.sql.debug.maxToStringFields": "1",
}


def for_small_data(spark: SparkSession, *, small: bool = True) -> None:
    """Configures the session for small data, or back to the application's own settings for large data."""
    for name, value in SMALL_DATA.items():
        if small:
            spark.conf.set(name, value)
        else:
            spark.conf.unset(name)


# Largest batch that Spark hands to Python: rows, and bytes in compressed files.
_MOST_AT_ONCE, _MOST_BYTES = 10_000, 16 << 20


def for_rows_of(spark: SparkSession, rows: int, packed: int) -> None:
    """Limits the batches that Spark hands to Python. `packed`: bytes of these `rows` in compressed files."""
    at_once = max(1, min(_MOST_AT_ONCE, _MOST_BYTES * max(rows, 1) // max(packed, 1)))
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(at_once))


# Size of the code cache. Each plan brings its own code, and a JVM with a full cache stops compiling. With the
# first compiler only, the default is a fifth of the usual size, which five windows of 100,000 rows fill.
_CODE = "-XX:ReservedCodeCacheSize=512m"
# Options of a JVM for small data. Half of the memory is for young objects, since plans leave nothing else.
# Iceberg polls its pool for manifests every 10 ms, which is longer than reading those of small tables.
SMALL_DATA_JVM = f"{_CODE} -XX:+UseSerialGC -XX:NewRatio=1 -Diceberg.scan.plan-in-worker-pool=false"
# Options of a JVM that lives for minutes. It only passes on what kernels do, so it does without the second
# compiler, which took a fifth of all processor time.
FOR_MINUTES_JVM = f"{_CODE} -XX:TieredStopAtLevel=1"
# Settings of a driver on this machine alone, for one job. An event of 10 MB needs more than Spark's default
# of 1 GB. With its memory off the heap, the process stays below 4 GB.
_LOCAL = {
    "spark.driver.memory": "3400m",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    # Rows are already compressed: compressing them again took the JVM a second for a million rows.
    "spark.shuffle.compress": "false",
}


# Placeholder for a catalog member, which is set once the session exists.
_LATER = "***"


def as_properties(conf: Mapping[str, str]) -> str:
    """Returns the settings as a Java properties file, for use where a command line would show them.

    In such a file a backslash escapes, and a leading blank would be skipped.
    """
    lines = []
    for name, value in conf.items():
        text = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
        lines.append(f"{name} \\{text}\n" if text[:1].isspace() else f"{name} {text}\n")
    return "".join(lines)


# Additional settings of a process that brings its own Spark (local[*]); a cluster has defaults of its own.
def local_conf(settings: Settings) -> dict[str, str]:
    return {
        "spark.driver.extraClassPath": os.pathsep.join(class_path(settings)),
        **_LOCAL,
        "spark.driver.extraJavaOptions": " ".join([FOR_MINUTES_JVM, *_collector(), *class_archive(settings)]),
        # The default of 200 costs more than it gains on one machine.
        "spark.sql.shuffle.partitions": str(4 * (os.cpu_count() or 2)),
    }


def jars(settings: Settings) -> list[str]:
    """Returns the jars besides Spark's own, with those for S3 if the lake is there.

    Raises ConfigError if they have not been fetched.
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
    """Returns the jars for a JVM of this machine, always with those for S3 if they are there.

    The class archive belongs to one class path. Classes in `spark.jars` are in no archive, and each task
    would look for them in all of Spark's own jars first.
    """
    jars(settings)
    return [str(jar) for folder in _jar_folders(settings) for jar in sorted(folder.glob("*.jar"))]


def _jar_folders(settings: Settings) -> list[Path]:
    return [settings.jars, settings.jars.with_name(f"{settings.jars.name}-s3")]


def _collector() -> list[str]:
    """Returns the option of the garbage collector, or none if the environment chooses one: a JVM refuses two.

    The JVM passes on large arrays that live for a moment. The default collector would mark the heap
    concurrently again and again, which took a tenth of the JVM's time.
    """
    chosen = " ".join(os.environ.get(name, "") for name in ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS"))
    return [] if re.search(r"-XX:\+Use\w+GC\b", chosen) else ["-XX:+UseParallelGC"]


def class_archive(settings: Settings) -> list[str]:
    """Returns the JVM option that maps the archived classes of the set-up; none without an archive.

    It saves half of Spark's start. A JVM with other jars silently ignores the archive.
    """
    archives = settings.jars.glob("classes-*.jsa")
    return [f'"-XX:SharedArchiveFile={archive}" -Xlog:cds=off' for archive in archives][:1]


def spark_session(app_name: str, patience: float = 30.0) -> SparkSession:
    """Returns the session of this process.

    With `SPARK_REMOTE` (`sc://host:port`) it attaches to a Connect server, which has the static settings from
    its start. Otherwise it starts an application under the master of `spark-submit`, or else `local[*]`.

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
        # Otherwise Spark's Python workers would be whatever `python3` is on the PATH.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        conf = {**local_conf(settings), **conf}
    # The builder's settings end up on the command line of the JVM. A catalog reads its settings only at its
    # first use, so they get placeholders, as the event log hides only settings that exist at the start.
    members = {name: value for name, value in conf.items() if is_member(name)}
    for name, value in conf.items():
        builder = builder.config(name, _LATER if name in members else value)
    spark = builder.getOrCreate()
    for name, value in members.items():
        spark.conf.set(name, value)
    _settle_literals(spark)
    if not re.fullmatch(r"local(\[.*])?", str(spark.conf.get("spark.master"))):
        send_package(spark)
    return spark


def _attached(remote: str, patience: float) -> SparkSession:
    from pyspark.sql import SparkSession  # noqa: PLC0415 - as above

    from changeledger.spark.remote import require_answer  # noqa: PLC0415 - as above

    require_answer(remote, patience)
    _allow_deep_plans()
    spark = SparkSession.builder.remote(remote).getOrCreate()
    # At exit, pyspark 4.1 sends the server a command and retries for ten minutes if the server is gone. Over
    # a closed channel it fails at once. The function registered last is called first.
    atexit.register(spark.client.close)  # type: ignore[operator]
    # The server may have been started by an earlier version, or in another way.
    of_server = spark.conf.getAll
    for name, value in SQL.items():
        if of_server.get(name) != value:
            spark.conf.set(name, value)
    _settle_literals(spark)
    send_package(spark)
    return spark


def _settle_literals(spark: SparkSession) -> None:
    if spark.conf.get(_RAW_LITERALS) != "false":
        spark.conf.set(_RAW_LITERALS, "false")


def _allow_deep_plans() -> None:
    """Lifts the limit of protobuf in Python of 100 levels: each call in a plan takes two of them.

    The server's own limit is higher: spark.connect.grpc.marshallerRecursionLimit.
    """
    from google.protobuf.internal import api_implementation  # type: ignore[import-untyped]  # noqa: PLC0415

    if api_implementation.Type() == "upb":
        api_implementation._c_module.SetAllowOversizeProtos(True)


def _check_versions() -> None:
    """Raises ConfigError if pyspark and pyspark-client differ: both install into the folder `pyspark/`."""
    full, client = version("pyspark"), version("pyspark-client")
    if full != client:
        raise ConfigError(
            f"pyspark {full} and pyspark-client {client} overwrite each other's files",
            "install the locked requirements.txt again, into a new environment",
        )
