"""Real sources behind TLS, logins and ACLs: Kafka's client here and in Spark's workers, and PostgreSQL.

The certificates are created here. The clients phrase the errors about wrong certificates; the remedies are
ours.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import SparkSession
from sqlalchemy import column, select, table

from changeledger.config.connection import Connection
from changeledger.jdbc.database import JdbcDatabase
from changeledger.kafka import topics as kafka_storage
from changeledger.kafka.topics import Kafka
from changeledger.model.errors import ConfigError
from changeledger.spark import failures
from changeledger.spark.rows import Workers
from changeledger.stages import extract
from sourcelab.messages import in_order
from sourcelab.services import KafkaBroker, Postgres
from tests.certificates import Authority
from tests.conftest import JARS
from tests.feeds import feed_of
from tests.integration.line import window

pytestmark = pytest.mark.integration

# Characters of two and three bytes, and characters that end or escape something in JAAS, URLs and shells.
PASSWORD = 'pä"ss\\w;rd€ $%{}'
USERS = {"reader": PASSWORD, "describer": "d"}
_SECONDS = 30


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("stranger"), "stranger")


@pytest.fixture(scope="module")
def broker(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A broker with three messages in `open`, which `reader` may read and `describer` may only see."""
    with KafkaBroker(
        JARS.with_name("kafka"), tmp_path_factory.mktemp("kafka"), authority.server()
    ) as service:
        admin = AdminClient({"bootstrap.servers": service.bootstrap})
        _wait(admin.create_topics([NewTopic(name, 1, 1) for name in ("open", "closed")]))
        scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        _wait(
            admin.alter_user_scram_credentials(
                [UserScramCredentialUpsertion(user, scram, secret.encode()) for user, secret in USERS.items()]
            )
        )
        _wait(
            admin.create_acls(
                [
                    _allowed("User:reader", AclOperation.READ),
                    _allowed("User:describer", AclOperation.DESCRIBE),
                    _allowed("User:CN=machine", AclOperation.READ),
                ]
            )
        )
        producer = in_order({"bootstrap.servers": service.bootstrap})
        for number in range(3):
            producer.produce("open", b"%d" % number)
        assert producer.flush(_SECONDS) == 0
        yield service


def _wait(futures: Mapping[Any, Any]) -> None:
    for future in futures.values():
        future.result(_SECONDS)


def _allowed(principal: str, operation: AclOperation) -> AclBinding:
    topic, literal, allow = ResourceType.TOPIC, ResourcePatternType.LITERAL, AclPermissionType.ALLOW
    return AclBinding(topic, "open", literal, principal, "*", operation, allow)


def login(broker: KafkaBroker, authority: Authority, user: str = "reader", **options: str) -> dict[str, str]:
    return {
        "bootstrap.servers": f"127.0.0.1:{broker.login_port}",
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": "SCRAM-SHA-512",
        "sasl.username": user,
        "sasl.password": USERS[user],
        "ssl.ca.location": str(authority.path),
        **{name.replace("__", "."): value for name, value in options.items()},
    }


def by_certificate(broker: KafkaBroker, authority: Authority) -> dict[str, str]:
    return {
        "bootstrap.servers": f"127.0.0.1:{broker.certificate_port}",
        "security.protocol": "ssl",
        "ssl.ca.location": str(authority.path),
    }


def kafka(extra: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Kafka:
    # As Airflow passes it to the job.
    monkeypatch.setenv("AIRFLOW_CONN_TLS", json.dumps({"conn_type": "kafka", "extra": extra}))
    return Kafka("tls", Connection.named("tls"))


def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shortens the times before a refusal, which comes at once, is taken as final."""
    for name, seconds in (("_REFUSED_SECONDS", 1.5), ("_TIMEOUT_SECONDS", 3.0), ("_STUCK_SECONDS", 2.0)):
        monkeypatch.setattr(kafka_storage, name, seconds)


def planned(source: Kafka) -> dict[str, dict[str, int]]:
    """Returns the topics' end offsets."""
    topics = source.topics(["*"])
    return source.latest(topics)


def read(source: Kafka) -> list[bytes]:
    """Reads in this process."""
    messages = source.messages({}, {"open": {"0": 3}})
    return [
        value
        for part in messages.parts
        for rows in messages.rows(part)
        for value in rows.column("value").to_pylist()
    ]


def read_by_workers(spark: SparkSession, source: Kafka) -> list[bytes]:
    with failures.named("tls"):
        rows = Workers(lambda: spark).read(source.messages({}, {"open": {"0": 3}}))
        return rows.collected().column("value").to_pylist()


ALL = [b"0", b"1", b"2"]


def test_a_login_over_tls_of_a_private_authority(
    spark: SparkSession, broker: KafkaBroker, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = kafka(login(broker, authority), monkeypatch)
    # By its ACLs, this login cannot see the other topic.
    assert planned(source) == {"open": {"0": 3}}
    assert read(source) == ALL
    assert read_by_workers(spark, source) == ALL
    assert len(source.fingerprints({"open": {"0": 3}})["open"]["0"] or "") == 32
    assert source.retention(["open"]) == {}, "Read does not include DescribeConfigs"


@pytest.mark.parametrize("how", ["files", "texts", "locked key"])
def test_a_client_certificate(
    spark: SparkSession,
    broker: KafkaBroker,
    authority: Authority,
    monkeypatch: pytest.MonkeyPatch,
    how: str,
) -> None:
    issued = authority.issue("machine", password="sésame" if how == "locked key" else "")
    extra = by_certificate(broker, authority)
    if how == "texts":
        del extra["ssl.ca.location"]
        extra |= {
            "ssl.ca.pem": authority.path.read_text(),
            "ssl.certificate.pem": issued.certificate.read_text(),
            "ssl.key.pem": issued.key.read_text(),
        }
    else:
        extra |= {
            "ssl.certificate.location": str(issued.certificate),
            "ssl.key.location": str(issued.key),
        }
    if how == "locked key":
        extra["ssl.key.password"] = "sésame"
    source = kafka(extra, monkeypatch)
    assert planned(source) == {"open": {"0": 3}}
    assert read(source) == ALL
    # A worker on another machine does not have the files.
    issued.certificate.unlink()
    issued.key.unlink()
    assert read_by_workers(spark, source) == ALL


@pytest.mark.parametrize("what", ["plan", "read", "read by workers"])
@pytest.mark.parametrize(
    ("wrong", "said", "remedy"),
    [
        (
            "the certificate of another authority",
            r"certificate of Kafka at 127\.0\.0\.1:.* is not trusted",
            "ssl.ca.location or ssl.ca.pem",
        ),
        ("no certificate", "does not accept the client's certificate", "ssl.certificate.location"),
        ("the password", "does not accept the login", "sasl.password"),
    ],
)
def test_a_connection_that_is_refused(
    spark: SparkSession,
    broker: KafkaBroker,
    authority: Authority,
    stranger: Authority,
    monkeypatch: pytest.MonkeyPatch,
    what: str,
    wrong: str,
    said: str,
    remedy: str,
) -> None:
    short(monkeypatch)
    extra = {
        "the certificate of another authority": login(broker, stranger),
        "no certificate": by_certificate(broker, authority),
        "the password": login(broker, authority, sasl__password="gehäim"),
    }[wrong]
    source = kafka(extra, monkeypatch)
    with pytest.raises(ConfigError, match=said) as refused:
        {"plan": planned, "read": read, "read by workers": partial(read_by_workers, spark)}[what](source)
    assert remedy in refused.value.remedy
    assert "gehäim" not in str(refused.value)


def test_a_login_that_may_not_read(
    spark: SparkSession, broker: KafkaBroker, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading the topic's offsets needs DESCRIBE, and reading its records READ."""
    source = kafka(login(broker, authority, "describer"), monkeypatch)
    assert planned(source) == {"open": {"0": 3}}
    for reading in (read, partial(read_by_workers, spark)):
        with pytest.raises(ConfigError, match=r"not authorized.*open") as refused:
            reading(source)
        assert "READ" in refused.value.remedy
    with pytest.raises(ConfigError, match="not authorized"):
        source.fingerprints({"open": {"0": 3}})


def test_a_topic_that_the_login_may_not_see(
    spark: SparkSession, broker: KafkaBroker, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole stage runs, and names the missing right."""
    kafka(login(broker, authority), monkeypatch)
    feed = feed_of("tls", "dbo.customers", connection="tls", source={"topics": ["closed"]})
    with pytest.raises(ConfigError, match="no topic of 'tls' matches closed") as refused:
        extract.run(spark, feed, window())
    assert "DESCRIBE and READ" in refused.value.remedy


@pytest.fixture(scope="module")
def postgres(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """Accepts only TLS, reached by the name of this machine, which is no loopback address."""
    tls = authority.server(socket.gethostname())
    with Postgres(tmp_path_factory.mktemp("postgres"), tls=tls) as service:
        with psycopg.connect(
            host="127.0.0.1", port=service.port, dbname="shop", user=service.user,
            password=service.password, autocommit=True,
        ) as session:  # fmt: skip
            session.execute("CREATE TABLE numbers (id int)")
            session.execute("INSERT INTO numbers VALUES (1), (2)")
            quoted = PASSWORD.replace("'", "''")
            session.execute(f"CREATE ROLE reader LOGIN PASSWORD '{quoted}'")  # type: ignore[call-overload]
            session.execute("GRANT SELECT ON numbers TO reader")
        yield service


def database(service: Postgres, host: str, **extra: str) -> JdbcDatabase:
    fields = {
        **service.connection, "host": host, "login": "reader", "password": PASSWORD, "extra": extra,
    }  # fmt: skip
    return JdbcDatabase("pg", Connection.model_validate(fields))


TABLE_QUERY = select(column("id")).select_from(table("numbers"))


def test_postgres_is_verified_by_default(
    spark: SparkSession, postgres: Postgres, authority: Authority, stranger: Authority
) -> None:
    host = socket.gethostname()
    assert host != "localhost"
    trusted = database(postgres, host, sslrootcert=str(authority.path))
    for rows in (trusted.rows(TABLE_QUERY), trusted.read(spark, [TABLE_QUERY]).collect()):
        assert sorted(row["id"] for row in rows) == [1, 2]
    for extra in ({"sslrootcert": str(stranger.path)}, {}):
        with pytest.raises(ConfigError, match=r"certificate of the database .* is not trusted") as refused:
            database(postgres, host, **extra).rows(TABLE_QUERY)
        assert "sslrootcert" in refused.value.remedy


def test_the_name_in_the_certificate_counts(authority: Authority, tmp_path: Path) -> None:
    tls = replace(authority.server("elsewhere.example"), host="localhost")
    with Postgres(tmp_path, tls=tls) as service:
        extra = {"sslrootcert": str(authority.path)}
        with pytest.raises(ConfigError, match="is not trusted"):
            database(service, "localhost", sslmode="verify-full", **extra).rows(TABLE_QUERY)
