"""A small JDBC client without Spark: a JVM of this process that has only the database drivers.

The JVM starts in a tenth of a second and ends with the process. Drivers and their settings are the same as in
Spark's reads.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, Final, NamedTuple

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from changeledger.config.settings import Settings
from changeledger.model.errors import ConfigError
from changeledger.spark.session import jars

# In UTC no hour is skipped, so times without a zone are read as they are written.
_JVM: Final = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Duser.timezone=UTC"]
# Numbers of java.sql.Types, the same in every JDK.
_BINARY: Final = (-4, -3, -2, 2004)
_TIMESTAMP: Final = 93
_FROM_TEXT: Final[Mapping[int, Callable[[str], Any]]] = {
    **dict.fromkeys((-6, -5, 4, 5), int),
    **dict.fromkeys((2, 3), Decimal),
    **dict.fromkeys((6, 7, 8), float),
    **dict.fromkeys((-7, 16), lambda text: text.lower() in ("1", "t", "true")),
    91: date.fromisoformat,
}


class Answer(NamedTuple):
    """The result of a query: its columns' labels, rows by label, and the columns' JDBC types (`kinds`)."""

    columns: tuple[str, ...]
    rows: list[dict[str, Any]]
    kinds: tuple[int, ...] = ()


class Session:
    """One connection to a database, opened by the first query. Threads may share it."""

    def __init__(self, driver: str, url: str, properties: Mapping[str, str], first: str = "") -> None:
        """`first`: a statement that is executed when the connection opens."""
        self._driver, self._url, self._properties, self._first = driver, url, properties, first
        self._lock = Lock()
        self._connection: Any = None

    def ask(self, sql: str) -> Answer:
        """Executes a query. Raises py4j's Py4JJavaError if the database fails, ConfigError without Java."""
        with self._lock:
            statement = self._opened().createStatement()
            try:
                return _answer(statement.executeQuery(sql))
            finally:
                statement.close()

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    def _opened(self) -> Any:
        if self._connection is None:
            jvm = _gateway().jvm
            jvm.java.lang.Class.forName(self._driver)
            properties = jvm.java.util.Properties()
            for name, value in self._properties.items():
                properties.setProperty(name, value)
            self._connection = jvm.java.sql.DriverManager.getConnection(self._url, properties)
            if self._first:
                statement = self._connection.createStatement()
                statement.execute(self._first)
                statement.close()
        return self._connection


def _answer(result: Any) -> Answer:
    about = result.getMetaData()
    places = range(1, about.getColumnCount() + 1)
    names = tuple(str(about.getColumnLabel(place)) for place in places)
    kinds = tuple(int(about.getColumnType(place)) for place in places)
    rows = []
    while result.next():
        cells = (_cell(result, place, kind) for place, kind in zip(places, kinds, strict=True))
        rows.append(dict(zip(names, cells, strict=True)))
    return Answer(names, rows, kinds)


def _cell(result: Any, place: int, kind: int) -> Any:
    if kind in _BINARY:
        return result.getBytes(place)
    if kind == _TIMESTAMP:
        moment = result.getTimestamp(place)
        return None if moment is None else datetime.fromisoformat(moment.toLocalDateTime().toString())
    text = result.getString(place)
    convert = _FROM_TEXT.get(kind)
    return text if text is None or convert is None else convert(text)


@cache
def _gateway() -> JavaGateway:
    home = os.environ.get("JAVA_HOME")
    # Under spark-submit, pyspark itself is in an archive without the jars.
    spark = os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent
    (py4j,) = Path(spark, "jars").glob("py4j-*.jar")
    try:
        port, token = launch_gateway(
            jarpath=str(py4j),
            classpath=os.pathsep.join(jars(Settings())),
            javaopts=_JVM,
            java_path=str(Path(home, "bin", "java")) if home else "java",
            die_on_exit=True,
            enable_auth=True,
        )
    except FileNotFoundError as error:
        raise ConfigError(
            f"there is no Java at {error.filename!r}, which is needed to query the source's database",
            "install Java 17 where the task runs, or set JAVA_HOME to it",
        ) from None
    return JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
