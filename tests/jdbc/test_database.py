"""A connection's fields stay fields: none of them adds properties to a JDBC URL."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import Mock

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    DateType,
    DecimalType,
    IntegerType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)
from sqlalchemy import Select, column, select, table

from changeledger.config.connection import Connection
from changeledger.jdbc.as_text import held, printed, styles
from changeledger.jdbc.client import Answer
from changeledger.jdbc.database import JdbcDatabase
from changeledger.jdbc.settings import checked
from changeledger.jdbc.tls import explained, postgres_properties
from changeledger.model.errors import ConfigError


def database(**fields: object) -> JdbcDatabase:
    connection = {"conn_type": "mssql", "host": "sql.example", "schema": "shop", **fields}
    return JdbcDatabase("shop_sql", Connection.model_validate(connection))


@pytest.mark.parametrize(
    "fields",
    [
        {"host": "sql.example;trustServerCertificate=true"},
        {"schema": "shop;encrypt=false"},
        {"schema": "shop;socketFactoryClass=evil.Factory"},
        {"extra": {"encrypt": "false;trustStore=/tmp/mine"}},
        {"extra": {"trustServerCertificate": "maybe"}},
        {"extra": {"applicationIntent": "ReadOnly;trustServerCertificate=true"}},
        {"extra": {"multiSubnetFailover": "1"}},
        {"conn_type": "postgres", "schema": "shop?socketFactory=evil.Factory"},
        {"conn_type": "postgres", "host": "pg/other?user=x"},
        {"conn_type": "sqlite", "host": "/data/shop.db?enable_load_extension=true"},
        {"host": None},
        {"conn_type": "postgres", "extra": {"sslmode": "verify-full&sslfactory=evil.Factory"}},
    ],
)
def test_what_would_add_a_property_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="no usable"):
        database(**fields)


@pytest.mark.parametrize(
    ("conn_type", "name", "like"),
    [
        ("mssql", "Authentication", "authentication"),
        ("mssql", "accessToken", ""),
        ("mssql", "AADSecurePrincipalSecret", ""),
        ("mssql", "jaasConfigurationName", ""),
        ("mssql", "Encrypt", "encrypt"),
        ("mssql", "trust_server_certificate", ""),
        ("mssql", "sslmode", ""),
        ("postgres", "SSLMode", "sslmode"),
        ("postgres", "sslcert", "sslrootcert"),
        ("postgres", "encrypt", ""),
        ("sqlite", "journal_mode", ""),
    ],
)
def test_an_extra_that_nothing_reads_is_refused_by_its_name(conn_type: str, name: str, like: str) -> None:
    """Users rely on `Encrypt` or `authentication`, so a name in another case is refused, not ignored."""
    with pytest.raises(ConfigError, match=f"nothing reads the extra '{name}'") as refused:
        database(conn_type=conn_type, extra={name: "secret value"})
    assert "secret value" not in str(refused.value)
    if like:
        assert f"did you mean '{like}'?" in str(refused.value)


def test_what_the_driver_of_sql_server_is_told() -> None:
    """Properties include those of availability group listeners. JSON values become the driver's words."""
    assert database(port=1433)._url() == (
        "jdbc:sqlserver://sql.example:1433;databaseName=shop;encrypt=true;trustServerCertificate=false"
    )
    extra = {"encrypt": False, "applicationIntent": "readonly", "multiSubnetFailover": True}
    assert database(extra=extra)._url() == (
        "jdbc:sqlserver://sql.example;databaseName=shop;encrypt=false;trustServerCertificate=false;"
        "applicationIntent=ReadOnly;multiSubnetFailover=true"
    )


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"extra": {"encrypt": None}},
        {"host": "sql.example\\INSTANCE", "extra": {"encrypt": "strict"}},
        {"host": "[::1]", "port": 1433, "schema": "Shop Floor 2"},
        {"conn_type": "postgres", "host": "127.0.0.1", "schema": "shop"},
        {"conn_type": "sqlite", "host": "/data/the shop.db", "schema": None},
    ],
)
def test_what_names_a_database_is_accepted(fields: dict[str, object]) -> None:
    database(**fields)


@pytest.mark.parametrize(
    ("conn_type", "at", "day"),
    [
        ("mssql", "CONVERT(VARCHAR(40), asked.[at x], 121)", "CONVERT(VARCHAR(40), asked.day, 23)"),
        ("postgres", 'CAST(asked."at x" AS VARCHAR)', "CAST(asked.day AS VARCHAR)"),
    ],
)
def test_times_without_a_zone_are_read_as_text(conn_type: str, at: str, day: str) -> None:
    """The style prints all digits. SQL Server's default style omits the seconds of a datetime."""
    schema = StructType([StructField("at x", TimestampNTZType()), StructField("day", DateType())])
    query = select(*map(column, ("id", "at x", "day"))).select_from(table("orders"))
    text = database(conn_type=conn_type).sql(printed(query, styles(conn_type, schema)))
    name = "[at x]" if conn_type == "mssql" else '"at x"'
    assert " ".join(text.split()) == (
        f"SELECT asked.id, {at} AS {name}, {day} AS day FROM (SELECT id, {name}, day FROM orders) AS asked"
    )


def test_a_seventh_digit_of_a_second_stays_text() -> None:
    """Spark's timestamps end at microseconds. SQL Server's `datetime2(7)` has one more digit."""
    schema = StructType(
        [
            StructField(name, kind, metadata={"scale": scale})
            for name, kind, scale in (
                ("id", IntegerType(), 0),
                ("at3", TimestampNTZType(), 3),
                ("at6", TimestampNTZType(), 6),
                ("at7", TimestampNTZType(), 7),
                ("day", DateType(), 0),
            )
        ]
    )
    every = {"at3": "timestamp_ntz", "at6": "timestamp_ntz", "at7": "timestamp_ntz", "day": "date"}
    assert styles("postgres", schema).keys() == every.keys()
    assert styles("sqlite", schema) == {}
    assert held(schema) == {name: kind for name, kind in every.items() if name != "at7"}
    # An offset is lost in a timestamp, so SQL Server prints it, and it stays text.
    zoned = StructType([*schema, StructField("off", TimestampType(), metadata={"scale": 3})])
    assert styles("mssql", zoned) == {"at3": 121, "at6": 121, "at7": 121, "day": 23, "off": 121}
    assert (styles("postgres", zoned).keys(), held(zoned)) == (every.keys(), held(schema))
    # A time of day whose column is stated as text, as Spark 4.1 describes it.
    clock = {"scale": 3, "logical_time_type": True}
    timed = StructType([*schema, StructField("clock", TimestampNTZType(), metadata=clock)])
    assert (styles("postgres", timed).keys(), held(timed)) == ({*every, "clock"}, held(schema))
    # The number of digits is unknown.
    assert held(StructType([StructField("at", TimestampNTZType())])) == {"at": "timestamp_ntz"}


def test_a_decimal_that_spark_would_round_is_read_as_text() -> None:
    """Columns of PostgreSQL, as Spark 4.1 describes them."""
    schema = StructType(
        [
            StructField(name, kind, metadata={"scale": scale})
            for name, kind, scale in (
                ("id", IntegerType(), 0),
                ("numeric(38,20)", DecimalType(38, 20), 20),
                ("numeric", DecimalType(38, 18), 0),
                ("numeric(50,10)", DecimalType(38, 0), 10),
            )
        ]
    )
    assert styles("postgres", schema) == {"numeric": None, "numeric(50,10)": None}


class _OfNewTypes(JdbcDatabase):
    """A database with an id and a `json`, and Spark's reader, which does not know that type."""

    asked: str = ""
    read_by_spark: ClassVar[list[str]] = []

    def ask(self, sql: str) -> Answer:
        self.asked = " ".join(sql.split())
        return Answer(("id", "doc"), [], (4, -159))

    @property
    def _session(self) -> Any:
        return self

    def _frame(self, _spark: SparkSession, query: Select[Any]) -> DataFrame:
        text = " ".join(self.sql(query).split())
        if "CAST(" not in text:
            raise PySparkException("[UNRECOGNIZED_SQL_TYPE] Unrecognized SQL type - name: json, id: -159.")
        self.read_by_spark.append(text)
        frame: DataFrame = Mock(schema=StructType())
        return frame


def test_what_spark_does_not_know_is_read_as_text() -> None:
    """`json` and `vector` of SQL Server 2025, whatever a feed states for them (microsoft/mssql-jdbc#2917)."""
    connection = {"conn_type": "mssql", "host": "sql.example", "schema": "shop"}
    source = _OfNewTypes("shop_sql", Connection.model_validate(connection))
    source.read(Mock(), [select(*map(column, ("id", "doc"))).select_from(table("orders"))])
    assert source.asked == "SELECT * FROM (SELECT id, doc FROM orders) AS asked WHERE 1 = 0"
    assert source.read_by_spark == [
        "SELECT asked.id, CAST(asked.doc AS NVARCHAR(max)) AS doc FROM (SELECT id, doc FROM orders) AS asked"
    ]


def properties(host: str, **extra: object) -> dict[str, str]:
    fields = {"conn_type": "postgres", "host": host, "schema": "shop", "extra": extra}
    return postgres_properties("pg", host, checked("pg", Connection.model_validate(fields)))


@pytest.mark.parametrize("host", ["pg.example", "10.1.2.3", "[2001:db8::1]", "localhost.example", "0.0.0.0"])
def test_postgres_elsewhere_is_verified(host: str) -> None:
    assert properties(host) == {
        "sslmode": "verify-full",
        "sslfactory": "org.postgresql.ssl.DefaultJavaSSLFactory",
    }


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.8.8.8", "::1", "[::1]"])
def test_postgres_on_this_machine_need_not_have_tls(host: str) -> None:
    assert properties(host) == {"sslmode": "prefer"}
    assert properties(host, sslmode="verify-ca")["sslmode"] == "verify-ca"


def test_a_private_authority_of_postgres(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.touch()
    assert properties("pg.example", sslrootcert=str(file)) == {
        "sslmode": "verify-full",
        "sslrootcert": str(file),
    }
    with pytest.raises(ConfigError, match="is not a file"):
        properties("pg.example", sslrootcert=str(tmp_path / "none"))


def test_what_may_pass_is_no_fault_of_the_connection() -> None:
    connection = Connection(conn_type="postgres", host="pg.example")
    assert explained("pg", connection, "Connection to pg.example:5432 refused.") is None
    refused = explained("pg", connection, 'x\nFATAL: password authentication failed for user "me"\nat y')
    assert refused is not None
    assert refused.message.endswith('FATAL: password authentication failed for user "me"')
