"""The Spark provider and this project accept the connections of docs/connections.md."""

from __future__ import annotations

import base64
import json
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.apache.spark.hooks.spark_connect import SparkConnectHook
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

from changeledger.config.connection import Connection
from changeledger.config.settings import PROJECT
from changeledger.jdbc.database import JdbcDatabase
from changeledger.kafka.topics import Kafka

KEYTAB = base64.b64encode(b"not a real one").decode()
ARGUMENTS = {
    "this machine": ["--master", "local[*]"],
    "standalone": ["--master", "spark://spark-master:7077"],
    "YARN": ["--master", "yarn", "--keytab", "<file>", "--principal", "etl@EXAMPLE.COM", "--queue", "etl"],
}
URLS = {
    "Connect": "sc://spark-connect:15002/",
    "Connect behind TLS": "sc://spark.example.com:443/;token=%3Ctoken%3E;use_ssl=True",
}


def documented() -> dict[str, str]:
    """Returns the JSON of each row of the connection tables, by the row's first cell."""
    text = (PROJECT / "docs" / "connections.md").read_text("utf-8")
    section = text[text.index("\n## Connections\n") : text.index("\n## Grants\n")]
    return dict(re.findall(r"(?m)^\| ([\w' ]+) \| [^`\n]*`(\{.*\})`", section))


def connection(name: str) -> dict[str, Any]:
    return dict(json.loads(documented()[name].replace("<base64>", KEYTAB)))


def test_every_way_is_there() -> None:
    assert set(documented()) == {
        *ARGUMENTS, *URLS, "Kubernetes", "SQL Server", "Qlik's target", "Kafka", "Event Hubs",
    }  # fmt: skip


@pytest.mark.parametrize("name", ARGUMENTS)
def test_spark_submit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str) -> None:
    # The folder to which the provider writes the keytab.
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_HERE", json.dumps(connection(name)))
    command = SparkSubmitHook(conn_id="spark_here", name="x")._build_spark_submit_command("job.py")
    if "--keytab" in command:
        command[command.index("--keytab") + 1] = "<file>"
    assert command == ["spark-submit", *_placed(ARGUMENTS[name]), "job.py"]


def _placed(arguments: list[str]) -> list[str]:
    """Inserts the name before the queue, as the provider does."""
    at = arguments.index("--queue") if "--queue" in arguments else len(arguments)
    return [*arguments[:at], "--name", "x", *arguments[at:]]


@pytest.mark.parametrize("name", URLS)
def test_spark_connect(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_HERE", json.dumps(connection(name)))
    assert SparkConnectHook("spark_here").get_connection_url() == URLS[name]


def test_sql_server_over_tls() -> None:
    place = Connection.model_validate(connection("SQL Server"))
    assert JdbcDatabase("here", place)._url() == (
        "jdbc:sqlserver://db.example.com:1433;databaseName=shop;encrypt=true;trustServerCertificate=false"
    )


@pytest.mark.parametrize("name", ["Kafka", "Event Hubs"])
def test_librdkafka_knows_the_members(name: str) -> None:
    """librdkafka refuses unknown settings. The broker is not contacted."""
    Kafka("here", Connection.model_validate(connection(name)))
