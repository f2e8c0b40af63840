"""`changeledger check` against real sources: what is ready, and how each missing thing is reported."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psycopg
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from changeledger.cli.check.outcome import FAILED, OK, WARNING, Check, unknown_columns
from changeledger.cli.check.sequence import checks, connection
from changeledger.cli.project.files import FEEDS, files, write
from changeledger.config.tables import TableConfig
from changeledger.model.contract import Column, Contract
from changeledger.model.errors import ConfigError
from changeledger.orchestration.project_dags import refuse_wrong_settings
from sourcelab import ces, debezium, qlik_messages, qlik_tables, sqlserver_cdc
from sourcelab.log import simulate
from sourcelab.messages import Message, produce
from sourcelab.postgres import plain_url
from sourcelab.process import free_port
from sourcelab.services import KafkaBroker, Postgres
from tests.cli.called import called

LOG = simulate(3, 12)
MESSAGES = {
    "debezium": lambda: debezium.messages(LOG, schemas=True, snapshot=False),
    "ces": lambda: ces.messages(LOG, split_at=8_000),
    "qlik_messages": lambda: qlik_messages.messages(LOG, envelope=True, snapshot=False),
}
TABLES = {"debezium": "shop_debezium", **FEEDS}
SPARK = {"conn_type": "spark", "host": "local[*]"}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write(tmp_path, files(tmp_path, sorted(FEEDS)))
    monkeypatch.setenv("CHANGELEDGER_PROJECT", str(tmp_path))
    connect(monkeypatch, "changeledger_spark", SPARK)
    return tmp_path


def connect(patch: pytest.MonkeyPatch, name: str, connection: Mapping[str, Any]) -> None:
    patch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(connection))


def kafka_connection(kafka: KafkaBroker) -> dict[str, Any]:
    return {"conn_type": "kafka", "extra": {"bootstrap.servers": kafka.bootstrap}}


def edit(project: Path, dialect: str, was: str, becomes: str) -> str:
    """Changes an example and returns the feed's name."""
    file = project / "feeds" / f"{FEEDS[dialect]}.yaml"
    text = file.read_text("utf-8")
    assert was in text
    file.write_text(text.replace(was, becomes), "utf-8")
    return FEEDS[dialect]


def checked(feed: str) -> dict[str, list[Check]]:
    by_name: dict[str, list[Check]] = {}
    for check in checks(feed):
        by_name.setdefault(check.check, []).append(check)
    return by_name


def only_ok(by_name: Mapping[str, list[Check]]) -> bool:
    return {check.result for named in by_name.values() for check in named} == {OK}


@pytest.mark.integration
@pytest.mark.parametrize("dialect", sorted(MESSAGES))
def test_a_feed_of_messages_that_is_ready(
    project: Path, kafka: KafkaBroker, dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = f"check_{dialect}"
    sent = [message._replace(topic=f"{topic}.{message.topic}") for message in MESSAGES[dialect]()]
    produce(kafka.bootstrap, sent, partitions=1)
    connect(monkeypatch, "shop_kafka", kafka_connection(kafka))
    file = project / "feeds" / f"{FEEDS[dialect]}.yaml"
    lines = [
        f'  topics: ["{topic}.*"]' if "topics:" in x else x for x in file.read_text("utf-8").splitlines()
    ]
    file.write_text("\n".join(lines), "utf-8")
    by_name = checked(FEEDS[dialect])
    assert only_ok(by_name), by_name
    (table,) = by_name["table dbo.customers"]
    assert "key id int" in table.text
    shown = [record for check in by_name["records"] for record in check.records]
    assert len(shown) == 3
    assert {record["table"] for record in shown} == {"dbo.customers"}


@pytest.mark.integration
@pytest.mark.parametrize("dialect", ["sqlserver_cdc", "qlik_tables"])
def test_a_feed_of_change_tables(
    project: Path, postgres: Postgres, dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (sqlserver_cdc if dialect == "sqlserver_cdc" else qlik_tables).load(postgres.url, LOG)
    for name in ("shop_sqlserver", "shop_qlik_target"):
        connect(monkeypatch, name, postgres.connection)
    by_name = checked(FEEDS[dialect])
    assert {check.result for check in by_name["table dbo.customers"]} == {OK}
    assert [check.result for check in by_name["grants"]] == [OK]
    assert len(by_name["records"][0].records) > 0
    feed = edit(project, dialect, "dbo.customers", "dbo.absent")
    (missing,) = checked(feed)["table dbo.absent"]
    assert missing.result == FAILED
    assert ("sp_cdc_enable_table" if dialect == "sqlserver_cdc" else "Store changes") in missing.remedy


@pytest.mark.integration
def test_a_grant_that_is_missing(project: Path, postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    sqlserver_cdc.load(postgres.url, LOG)
    with psycopg.connect(plain_url(postgres.url), autocommit=True) as database:
        database.execute("CREATE ROLE weak LOGIN PASSWORD 'not to be shown'")
        database.execute("GRANT USAGE ON SCHEMA cdc TO weak")
    connect(
        monkeypatch, "shop_sqlserver", {**postgres.connection, "login": "weak", "password": "not to be shown"}
    )
    by_name = checked("shop_cdc")
    (table,) = by_name["table dbo.customers"]
    assert (table.result, table.retryable) == (FAILED, False)
    assert "permission denied" in table.text
    assert "Grants" in table.remedy
    assert "not to be shown" not in str(by_name)


def test_columns_that_no_change_table_has() -> None:
    """A column may be in one capture instance only: a new one may add it, an old one may lack it."""
    columns = [{"name": name, "type": "int"} for name in ("ID", "weihgt", "old", "new")]
    config = TableConfig.model_validate({"table": "dbo.t", "columns": columns})
    older, newer = (
        Contract(
            table="dbo.t",
            columns=tuple(Column(name=n, type="int", ordinal=at) for at, n in enumerate(names, 1)),
        )
        for names in (("id", "old"), ("id", "weight", "new"))
    )
    (check,) = unknown_columns(config, [older, newer])
    assert (check.check, check.result) == ("table dbo.t", WARNING)
    assert check.text.endswith("does not have: weihgt, did you mean weight?")


def sent(topic: str, value: Any) -> Message:
    """A message sent just now, so that the broker does not remove it for its age meanwhile."""
    return Message(topic, b'{"id": 1}', json.dumps(value).encode(), (), int(time.time() * 1000))


@pytest.mark.integration
def test_messages_of_another_form_in_a_topic_that_keeps_them_for_a_minute(
    project: Path, kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = "check_flat.shop.dbo.customers"
    settings = {"retention.ms": "60000", "cleanup.policy": "compact,delete"}
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1, config=settings)])[topic].result()
    connect(monkeypatch, "shop_kafka", kafka_connection(kafka))
    feed = edit(project, "debezium", '"shop.shop.*"', '"check_flat.*"')
    # Other tests use the topic of this name.
    edit(project, "debezium", "__debezium-heartbeat.shop", "__debezium-heartbeat.check_flat")
    (grants,) = checked(feed)["grants"]
    assert (grants.result, "empty" in grants.text) == (WARNING, True)
    flat = sent(topic, {"id": 1, "name": "a", "__op": "c"})
    # The message as a serializer of JSON Schema frames it.
    framed = flat._replace(value=b"\x00\x00\x00\x00\x07" + (flat.value or b""))
    produce(kafka.bootstrap, [flat, framed], partitions=1)
    by_name = checked(feed)
    assert "connection names no registry" in by_name["format"][0].text
    assert [check.result for check in by_name["topics"]] == [WARNING, OK], "no heartbeat topic"
    assert [check.result for check in by_name["retention"]] == [WARNING, FAILED], "compacted, and a minute"
    assert [check.result for check in by_name["records"]] == [WARNING, FAILED, FAILED]
    texts = " ".join(check.text for check in by_name["records"])
    assert "flattened_event" in texts
    assert "ExtractNewRecordState" in texts
    assert "json_schema_frame" in texts
    assert all("let the source send its rows again" in check.remedy for check in by_name["records"][1:])


@pytest.mark.parametrize("dialect", ["debezium", "sqlserver_cdc"])
@pytest.mark.usefixtures("project")
def test_a_source_that_does_not_answer(
    dialect: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("changeledger.kafka.topics._REFUSED_SECONDS", 1.5)
    port, secret = free_port(), "not to be shown"
    servers = {"bootstrap.servers": f"127.0.0.1:{port}", "sasl.username": "a", "sasl.password": secret}
    connect(monkeypatch, "shop_kafka", {"conn_type": "kafka", "extra": servers})
    place = {"host": "127.0.0.1", "port": port, "schema": "shop", "login": "a", "password": secret}
    connect(monkeypatch, "shop_sqlserver", {"conn_type": "postgres", **place})
    ended = called(capfd, "check", FEEDS[dialect], "--json")
    last = [json.loads(line) for line in ended.stdout.splitlines()][-1]
    assert (last["check"], last["result"], last["retryable"]) == ("connection", FAILED, True)
    assert "check that" in last["remedy"]
    assert ended.returncode == 75
    assert secret not in ended.stdout + ended.stderr


@pytest.mark.long
@pytest.mark.integration
def test_a_connection_that_airflow_alone_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    extra = {"bootstrap.servers": "broker:9092"}
    stored = tmp_path / "connections.json"
    stored.write_text(json.dumps({"shop_kafka": {"conn_type": "kafka", "port": 9092, "extra": extra}}))
    backend = "airflow.secrets.local_filesystem.LocalFilesystemBackend"
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    monkeypatch.setenv("AIRFLOW__SECRETS__BACKEND", backend)
    monkeypatch.setenv("AIRFLOW__SECRETS__BACKEND_KWARGS", json.dumps({"connections_file_path": str(stored)}))
    # `connection` leaves the connection in the environment, so use a copy.
    monkeypatch.setattr(os, "environ", dict(os.environ))
    known = connection("shop_kafka")
    assert (known.conn_type, known.port, known.extra) == ("kafka", 9092, extra)
    with pytest.raises(ConfigError, match="'shop_other' does not exist"):
        connection("shop_other")


def test_a_file_that_is_wrong_and_a_connection_that_nobody_has(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    monkeypatch.setattr("changeledger.cli.check.sequence._of_airflow", lambda _: None)
    by_name = checked("shop_ces")
    assert by_name["connection"][0].result == FAILED
    assert "create the Airflow connection 'shop_kafka'" in by_name["connection"][0].remedy
    feed = edit(project, "ces", "schedule:", "shedule:")
    (wrong,) = checked(feed)["feed"]
    assert (wrong.result, "did you mean `schedule`" in wrong.text) == (FAILED, True)


def test_what_a_file_leaves_to_the_first_run(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hash needs a secret, and an expectation may not have the name of an audit rule."""
    monkeypatch.setattr("changeledger.cli.check.sequence._of_airflow", lambda _: None)
    monkeypatch.delenv("CHANGELEDGER_HASH_KEY", raising=False)
    hashed = "  - table: dbo.customers\n    publish: {columns: {name: hash}}\n"
    feed = edit(project, "sqlserver_cdc", "  - table: dbo.customers\n", hashed)
    (check,) = checked(feed)["publish"]
    assert (check.result, "CHANGELEDGER_HASH_KEY is not set" in check.text) == (FAILED, True)
    monkeypatch.setenv("CHANGELEDGER_HASH_KEY", "sixteen or more of them")
    (check,) = checked(feed)["publish"]
    assert check.result == OK
    named = hashed + "    expectations: [{name: order_strict, sql: SELECT * FROM current}]\n"
    edit(project, "sqlserver_cdc", hashed, named)
    (check,) = checked(feed)["publish"]
    assert (check.result, "order_strict is already that of a rule" in check.text) == (FAILED, True)
    with pytest.raises(ConfigError, match="order_strict is already that of a rule"):
        refuse_wrong_settings()
