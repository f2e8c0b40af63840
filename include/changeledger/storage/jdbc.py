"""JDBC: a SELECT of SQLAlchemy Core, compiled for the database and read by Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from sqlalchemy import Select
from sqlalchemy.dialects import mssql, postgresql, sqlite
from sqlalchemy.engine.default import DefaultDialect

from changeledger.config import Connection
from changeledger.errors import ConfigError, SourceUnavailable

_FETCH_ROWS = "10000"
_DIALECTS: dict[str, tuple[type[DefaultDialect], str]] = {
    "mssql": (mssql.dialect, "com.microsoft.sqlserver.jdbc.SQLServerDriver"),
    "postgres": (postgresql.dialect, "org.postgresql.Driver"),
    "sqlite": (sqlite.dialect, "org.sqlite.JDBC"),
}


class Database:
    """One database. `conn_type` is mssql, postgres or sqlite; `schema` is the database's name."""

    def __init__(self, conn_id: str, connection: Connection) -> None:
        if connection.conn_type not in _DIALECTS:
            raise ConfigError(
                f"the connection {conn_id!r} has type {connection.conn_type!r}, which is no JDBC database",
                f"make it one of {', '.join(_DIALECTS)}",
            )
        self._conn_id = conn_id
        self._connection = connection
        dialect, self._driver = _DIALECTS[connection.conn_type]
        # A style without percent signs, which the compiler would double.
        self._dialect = dialect(paramstyle="named")

    def rows(self, spark: SparkSession, query: Select[Any]) -> list[Row]:
        """The result of a small SELECT, on the driver. Raises SourceUnavailable."""
        return self._asked(lambda: self.read(spark, [query]).collect())

    def columns(self, spark: SparkSession, query: Select[Any]) -> list[str]:
        """The names of a result's columns. Raises SourceUnavailable."""
        return self._asked(lambda: self.read(spark, [query]).columns)

    def read(self, spark: SparkSession, queries: Sequence[Select[Any]]) -> DataFrame:
        """The rows of all the SELECTs, each one a task of its own. They must be of one shape."""
        frames = [self._reader(spark).option("query", self.sql(query)).load() for query in queries]
        together: DataFrame = frames[0]
        for frame in frames[1:]:
            together = together.unionAll(frame)
        return together

    def sql(self, query: Select[Any]) -> str:
        return str(query.compile(dialect=self._dialect, compile_kwargs={"literal_binds": True}))

    def _reader(self, spark: SparkSession) -> Any:
        reader = (
            spark.read.format("jdbc")
            .option("url", self._url())
            .option("driver", self._driver)
            .option("fetchsize", _FETCH_ROWS)
            # SQL Server's datetime types have no zone, and get none on the way.
            .option("preferTimestampNTZ", "true")
        )
        if self._connection.login:
            reader = reader.option("user", self._connection.login)
            reader = reader.option("password", self._connection.password or "")
        return reader

    def _url(self) -> str:
        place = self._connection
        at = f"{place.host}:{place.port}" if place.port else place.host
        if place.conn_type == "mssql":
            encrypt = place.extra.get("encrypt", "true")
            trust = place.extra.get("trustServerCertificate", "false")
            return (
                f"jdbc:sqlserver://{at};databaseName={place.schema_};"
                f"encrypt={encrypt};trustServerCertificate={trust}"
            )
        return (
            f"jdbc:sqlite:{place.host}"
            if place.conn_type == "sqlite"
            else f"jdbc:postgresql://{at}/{place.schema_}"
        )

    def _asked(self, ask: Any) -> list[Any]:
        try:
            return list(ask())
        except PySparkException as error:
            reason = str(error).splitlines()[0][:300]
            raise SourceUnavailable(
                f"the database of the connection {self._conn_id!r} does not answer: {reason}",
                "check that it runs, that the login may read the cdc schema, and the connection's members",
            ) from error
