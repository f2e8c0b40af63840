"""Scripts in and before the containers: the secrets' maker, `with-secrets`, the Connect server's start."""

from __future__ import annotations

import base64
import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import make_url

from changeledger.config.connection import Connection
from changeledger.config.settings import PROJECT
from changeledger.spark.session import as_properties

sys.path.insert(0, str(PROJECT / "scripts"))
import compose_secrets

sys.path.pop(0)


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    compose_secrets.make(tmp_path / "secrets")
    return tmp_path / "secrets"


def with_secrets(folder: Path, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    script = (PROJECT / "docker" / "with-secrets").read_text("utf-8")
    assert script.count(" /run/secrets/*") == 1
    here = script.replace(" /run/secrets/*", f" {folder}/*")
    kept = {"PATH": os.environ["PATH"], **variables}
    return subprocess.run(
        ["/bin/sh", "-c", here, "with-secrets", *command],
        env=kept,
        capture_output=True,
        text=True,
        check=False,
    )


def test_secrets_are_shut_away_and_made_once(secrets: Path) -> None:
    assert stat.S_IMODE(secrets.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in secrets.iterdir()} == {0o644}
    before = {file.name: file.read_text() for file in secrets.iterdir()}
    (secrets / "DEBEZIUM_PASSWORD").unlink()
    assert compose_secrets.make(secrets) == ["DEBEZIUM_PASSWORD"]
    after = {file.name: file.read_text() for file in secrets.iterdir()}
    assert {name for name in before if before[name] != after[name]} == {"DEBEZIUM_PASSWORD"}


def test_passwords_please_sql_server_and_need_no_quoting(secrets: Path) -> None:
    words = [file.read_text() for file in secrets.glob("*PASSWORD")]
    assert len(words) == len(set(words)) == 8
    for word in words:
        assert re.fullmatch(r"[A-Za-z0-9]{20,128}", word)
        assert all(re.search(kind, word) for kind in ("[A-Z]", "[a-z]", "[0-9]"))


def test_the_parts_of_a_secret_agree(secrets: Path) -> None:
    def reported(name: str) -> str:
        return (secrets / name).read_text()

    airflow = make_url(reported("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"))
    control = make_url(reported("CHANGELEDGER_CONTROL_URL"))
    assert (airflow.username, airflow.database, airflow.password) == (
        "airflow",
        "airflow",
        reported("AIRFLOW_DB_PASSWORD"),
    )
    assert (control.username, control.database, control.password) == (
        "control",
        "control",
        reported("CONTROL_DB_PASSWORD"),
    )
    reader = Connection.model_validate_json(reported("AIRFLOW_CONN_SHOP_SQLSERVER"))
    assert (reader.login, reader.password) == ("changeledger_reader", reported("SHOP_READER_PASSWORD"))
    assert (reader.conn_type, reader.host, reader.port, reader.schema_) == (
        "mssql",
        "sqlserver-2022",
        1433,
        "shop",
    )
    assert len(base64.urlsafe_b64decode(reported("AIRFLOW__CORE__FERNET_KEY"))) == 32


def test_every_file_is_a_variable(tmp_path: Path) -> None:
    (tmp_path / "PLAIN").write_text("a b\n")
    value = '{"password": "$HOME \\"x\\" \'y\'"}'
    (tmp_path / "AIRFLOW_CONN_X").write_text(value)
    (tmp_path / "folder").mkdir()
    ran = with_secrets(tmp_path, sys.executable, "-c", "import json, os; print(json.dumps(dict(os.environ)))")
    reported = json.loads(ran.stdout)
    assert (reported["PLAIN"], reported["AIRFLOW_CONN_X"]) == ("a b", value)
    assert "folder" not in reported


def test_the_command_is_run_without_secrets_and_its_end_is_reported(tmp_path: Path) -> None:
    assert with_secrets(tmp_path / "nothing", "sh", "-c", "exit 7").returncode == 7


def test_sparks_programs_get_their_secret_in_a_file_of_their_own(tmp_path: Path) -> None:
    given, conf = tmp_path / "given", tmp_path / "conf"
    for folder in (given, conf):
        folder.mkdir()
    (given / "SPARK_AUTHENTICATE_SECRET").write_text("Aa1secret")
    (conf / "spark-defaults.conf").write_text("spark.driver.host me\n")
    variables = {"HOME": str(tmp_path), "SPARK_CONF_DIR": str(conf)}
    ran = with_secrets(given, "sh", "-c", 'cat "$SPARK_CONF_DIR/spark-defaults.conf"', **variables)
    assert ran.stdout.splitlines() == [
        "spark.driver.host me", "spark.authenticate true", "spark.authenticate.secret Aa1secret",
        "spark.master.rest.enabled false",
    ]  # fmt: skip
    assert stat.S_IMODE((tmp_path / "spark-conf").stat().st_mode) == 0o700
    again = with_secrets(given, "sh", "-c", 'cat "$SPARK_CONF_DIR/spark-defaults.conf"', **variables)
    assert again.stdout == ran.stdout


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_a_secret_that_cannot_be_read_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "LOCKED").touch(0o000)
    assert with_secrets(tmp_path, "true").returncode != 0


def test_the_connect_server_starts_without_its_password_in_sight(tmp_path: Path) -> None:
    """A stand-in for spark-submit records its arguments."""
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "one.jar").touch()
    reported = tmp_path / "reported"
    submit = tmp_path / "spark-submit"
    submit.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {reported}\n')
    submit.chmod(0o755)
    environment = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PYTHONPATH": str(PROJECT / "include"),
        "TMPDIR": str(tmp_path),
        "CHANGELEDGER_HOME": str(tmp_path),
        "CHANGELEDGER_JARS": str(tmp_path / "jars"),
        "CHANGELEDGER_CATALOG": '{"uri": "postgresql+psycopg://catalog:Aa1word@postgres:5432/catalog"}',
        "SPARK_AUTHENTICATE_SECRET": "Aa1secret",
    }
    command = [sys.executable, str(PROJECT / "docker" / "spark_connect.py"), "--master", "spark://m:7077"]
    subprocess.run(command, env=environment, check=True)
    arguments = reported.read_text().splitlines()
    assert arguments[:3] == ["--master", "spark://m:7077", "--properties-file"]
    assert arguments[4:] == [
        "--class",
        "org.apache.spark.sql.connect.service.SparkConnectServer",
        "spark-internal",
    ]
    file = Path(arguments[3])
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    settings = dict(line.split(" ", 1) for line in file.read_text().splitlines())
    assert settings["spark.sql.catalog.lake.jdbc.password"] == "Aa1word"
    assert (settings["spark.authenticate"], settings["spark.authenticate.secret"]) == ("true", "Aa1secret")
    assert settings["spark.sql.catalog.lake.uri"] == "jdbc:postgresql://postgres:5432/catalog"
    assert settings["spark.jars"] == str(tmp_path / "jars" / "one.jar")


def test_properties_are_escaped_as_java_reads_them() -> None:
    """java.util.Properties.load: a backslash escapes; blanks before a value are skipped."""
    conf = {"a": "plain", "b": " C:\\x", "c": "one\ntwo"}
    assert as_properties(conf) == "a plain\nb \\ C:\\\\x\nc one\\ntwo\n"
