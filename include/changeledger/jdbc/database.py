"""Reads databases by JDBC. Queries are SELECTs of SQLAlchemy Core, compiled for the database.

Spark reads rows; small results are read without Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, reduce
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from sqlalchemy import FromClause, Select, func, literal, literal_column, select
from sqlalchemy.dialects import mssql, postgresql, sqlite
from sqlalchemy.engine.default import DefaultDialect

from changeledger.config.connection import Connection
from changeledger.config.settings import Settings
from changeledger.jdbc import as_text, logins, settings, tls
from changeledger.jdbc.client import Answer, Session
from changeledger.model.errors import ConfigError, SourceUnavailable
from changeledger.pages.redaction import redacted_message
from changeledger.spark import failures

_FETCH_ROWS = "10000"
# Timeouts in seconds, for connecting and for the login; by default the driver waits for a login forever.
_PATIENCE = {"connectTimeout": "5", "loginTimeout": "20"}
_OF_POSTGRES = "SELECT set_config('TimeZone', 'UTC', false), set_config('extra_float_digits', '1', false)"
# Classes of SQLSTATE whose messages hold no values of rows: connections, logins, names and rights, resources,
# a server that is stopped.
_TELLS_NO_ROW = ("08", "28", "42", "53", "57")
_DIALECTS: dict[str, tuple[type[DefaultDialect], str]] = {
    "mssql": (mssql.dialect, "com.microsoft.sqlserver.jdbc.SQLServerDriver"),
    "postgres": (postgresql.dialect, "org.postgresql.Driver"),
    "sqlite": (sqlite.dialect, "org.sqlite.JDBC"),
}


class JdbcDatabase:
    """One database. The connection's type is mssql, postgres or sqlite, its `schema` the database's name."""

    def __init__(self, conn_id: str, connection: Connection) -> None:
        if connection.conn_type not in _DIALECTS:
            raise ConfigError(
                f"the connection {conn_id!r} has type {connection.conn_type!r}, which is not a JDBC database",
                f"set its type to one of {', '.join(_DIALECTS)}",
            )
        self._extra = settings.checked(conn_id, connection)
        if connection.conn_type == "mssql":
            names = (file.name for file in Settings().jars.glob("*.jar"))
            logins.checked_login(conn_id, connection, self._extra, names)
        self._conn_id = conn_id
        self._connection = connection
        dialect, self._driver = _DIALECTS[connection.conn_type]
        # A style without percent signs, which the compiler would double.
        self._dialect = dialect(paramstyle="named")

    @property
    def is_sql_server(self) -> bool:
        return self._connection.conn_type == "mssql"

    def rows(self, query: Select[Any]) -> list[dict[str, Any]]:
        """Returns the rows of a small SELECT, each by column. Raises SourceUnavailable."""
        return self._answer(query).rows

    def columns(self, source: FromClause) -> list[str]:
        """Returns the names of a table's columns. Raises SourceUnavailable."""
        return list(self._answer(header(source)).columns)

    def read(self, spark: SparkSession, queries: Sequence[Select[Any]]) -> DataFrame:
        """Returns the rows of all SELECTs, one Spark task each. They must have the same columns."""
        first, queries = self._begun(spark, queries)
        styles, held = as_text.styles(self._connection.conn_type, first.schema), as_text.held(first.schema)
        if styles:
            queries = [as_text.printed(query, styles) for query in queries]
            first = self._frame(spark, queries[0])
        frames = [first, *(self._frame(spark, query) for query in queries[1:])]
        together = reduce(DataFrame.unionAll, frames)
        return as_text.read_back(together, held) if styles and held else together

    def _begun(
        self, spark: SparkSession, queries: Sequence[Select[Any]]
    ) -> tuple[DataFrame, Sequence[Select[Any]]]:
        """Returns the frame of the first SELECT, and all SELECTs, with types unknown to Spark as text."""
        try:
            return self._frame(spark, queries[0]), queries
        except (Py4JJavaError, PySparkException) as error:
            if as_text.UNKNOWN not in str(error):
                raise
            answer = self._answer(header(queries[0].subquery("asked")))
            styles = as_text.of_driver(answer.columns, answer.kinds)
            if not styles:
                raise
        queries = [as_text.printed(query, styles) for query in queries]
        return self._frame(spark, queries[0]), queries

    def _frame(self, spark: SparkSession, query: Select[Any]) -> DataFrame:
        reader = (
            spark.read.format("jdbc")
            .option("url", self._url())
            .option("driver", self._driver)
            .option("fetchsize", _FETCH_ROWS)
            # SQL Server's datetime types have no zone, and get none on the way.
            .option("preferTimestampNTZ", "true")
            .option("query", self.sql(query))
        )
        if self._first:
            reader = reader.option("sessionInitStatement", self._first)
        frame: DataFrame = reader.options(**self._properties()).load()
        return frame

    def count(self, queries: Sequence[Select[Any]]) -> int:
        """Returns the number of rows of all SELECTs, counted by the database. Raises SourceUnavailable."""
        counts = [
            select(func.count().label("rows")).select_from(query.order_by(None).subquery("asked"))
            for query in queries
        ]
        return sum(int(row["rows"]) for query in counts for row in self.rows(query))

    def close(self) -> None:
        """Ends the session for small results; the next query begins another."""
        self._session.close()

    def sql(self, query: Select[Any]) -> str:
        return str(query.compile(dialect=self._dialect, compile_kwargs={"literal_binds": True}))

    @property
    def _first(self) -> str:
        """The statement that begins a session.

        By default PostgreSQL prints times in this machine's zone, and a role may round floats when printed.
        """
        return _OF_POSTGRES if self._connection.conn_type == "postgres" else ""

    def _properties(self) -> dict[str, str]:
        login, password = self._connection.login, self._connection.password or ""
        properties = {"user": login, "password": password} if login else {}
        if self._connection.conn_type == "postgres":
            verified = tls.postgres_properties(self._conn_id, self._connection.host, self._extra)
            properties |= _PATIENCE | verified
        return properties

    @cached_property
    def _session(self) -> Session:
        return Session(self._driver, self._url(), self._properties(), self._first)

    def _url(self) -> str:
        place = self._connection
        at = f"{place.host}:{place.port}" if place.port else place.host
        if place.conn_type == "sqlite":
            return f"jdbc:sqlite:{place.host}"
        if place.conn_type == "postgres":
            return f"jdbc:postgresql://{at}/{place.schema_}"
        properties = {"encrypt": "true", "trustServerCertificate": "false", **self._extra}
        stated = "".join(f";{name}={value}" for name, value in properties.items())
        return f"jdbc:sqlserver://{at};databaseName={place.schema_}{stated}"

    def _answer(self, query: Select[Any]) -> Answer:
        try:
            return self._session.ask(self.sql(query))
        except Py4JJavaError as error:
            said = tls.explained(self._conn_id, self._connection, str(error))
            cause = said or failures.known(error, self._conn_id)
            # A login or a missing grant fails again in the same way.
            if isinstance(cause, ConfigError):
                raise cause from error
            raise SourceUnavailable(
                f"the database of the connection {self._conn_id!r} does not answer: {_reason(error)}",
                "check that it runs, that what the feed reads exists (SQL Server: the cdc schema) and "
                "that the login may read it; check the connection's fields",
            ) from error


def header(source: FromClause) -> Select[Any]:
    """Selects all columns of the table and no rows."""
    return select(literal_column("*")).select_from(source).where(literal(1) == literal(0))


def _reason(error: Py4JJavaError) -> str:
    """Returns the driver's message, or only its codes if values are redacted and it may hold some."""
    raised = error.java_exception
    said = str(raised.toString().splitlines()[0][:300])
    if not Settings().redact_values:
        return said
    try:
        state, code = raised.getSQLState(), raised.getErrorCode()
    except Py4JError:
        # An error of Java itself, such as a driver that cannot be loaded.
        return redacted_message(said)
    if str(state).startswith(_TELLS_NO_ROW):
        return said
    return f"{raised.getClass().getName()}, SQLSTATE {state}, code {code}; its message may hold values"
