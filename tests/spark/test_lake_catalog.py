"""Derives Spark's catalog options from pyiceberg's settings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from changeledger.config.settings import Settings
from changeledger.control.database import engine_for
from changeledger.model.errors import ConfigError
from changeledger.spark.lake_catalog import is_member, spark_catalog
from changeledger.spark.redaction import SETTING
from changeledger.spark.session import spark_conf

LAKE = "spark.sql.catalog.lake"


def members(**catalog: str) -> dict[str, str]:
    conf = spark_catalog({"type": "sql", "warehouse": "/w", **catalog})
    assert conf.pop(LAKE) == "org.apache.iceberg.spark.SparkCatalog"
    assert conf.pop(f"{LAKE}.cache-enabled") == "false"
    return {name.removeprefix(f"{LAKE}."): value for name, value in conf.items()}


def test_a_file_is_shared_by_several_processes() -> None:
    assert members(uri="sqlite:////a b/catalog.db") == {
        "type": "jdbc",
        "uri": "jdbc:sqlite:/a b/catalog.db?journal_mode=WAL&busy_timeout=30000",
        "jdbc.schema-version": "V1",
        "warehouse": "/w",
    }
    assert members(uri="sqlite:////c.db?timeout=3")["uri"].endswith("busy_timeout=3000")


def test_a_file_that_the_jdbc_driver_would_not_find_is_refused() -> None:
    """It cuts the path at a question mark, escaped or not (`extractPragmasFromFilename` of sqlite-jdbc)."""
    assert members(uri="sqlite:////a%2520b/c.db")["uri"].startswith("jdbc:sqlite:/a%20b/c.db?")
    with pytest.raises(ConfigError, match=r"the path /a\?b/c\.db of the lake's catalog has a question mark"):
        members(uri="sqlite:////a%3Fb/c.db")


def test_a_login_is_no_part_of_a_jdbc_url() -> None:
    told = members(uri="postgresql+psycopg://me:p%40ss@host:5433/lake?sslmode=require&application_name=x")
    assert told["uri"] == "jdbc:postgresql://host:5433/lake?sslmode=require"
    assert (told["jdbc.user"], told["jdbc.password"]) == ("me", "p@ss")


def test_members_of_other_catalogs_mean_the_same_to_both() -> None:
    rest = {"type": "rest", "uri": "https://catalog", "s3.endpoint": "https://files", "token": "t"}
    of_s3 = {"io-impl": "org.apache.iceberg.aws.s3.S3FileIO", "s3.path-style-access": "true"}
    assert members(**rest) == {"warehouse": "/w", **rest, **of_s3}


def test_s3_is_called_otherwise_by_java() -> None:
    told = members(
        type="rest", warehouse="s3://lake", **{"s3.region": "eu-1", "s3.endpoint": "https://files"}
    )
    assert (told["client.region"], told["s3.path-style-access"]) == ("eu-1", "true")
    in_host = members(type="rest", **{"s3.endpoint": "https://files", "s3.force-virtual-addressing": "true"})
    assert in_host["s3.path-style-access"] == "false"
    assert "io-impl" not in members(uri="sqlite:////c.db")


@pytest.mark.parametrize("uri", ["mysql://host/lake", "no url", "jdbc:sqlite:/catalog.db"])
def test_a_database_that_the_lake_cannot_have(uri: str) -> None:
    with pytest.raises(ConfigError, match="not in a database that changeledger supports"):
        members(uri=uri)


@pytest.mark.parametrize("password", ["w@rest", "w@re:rest", "w@re/rest", "w@re@rest"])
def test_of_a_password_that_is_not_encoded_nothing_is_told(password: str) -> None:
    """RFC 3986: `@` ends a password. What follows would be a host, port or database, and appear in errors."""
    uri = f"postgresql+psycopg://me:{password}@host:5433/lake"
    with pytest.raises(ConfigError, match="`@` is `%40`") as caught:
        members(uri=uri)
    assert "rest" not in str(caught.value)
    with pytest.raises(ConfigError, match="`@` is `%40`") as caught:
        engine_for(uri)
    assert "rest" not in str(caught.value)


def test_what_others_on_the_machine_must_not_see() -> None:
    """Secrets appear neither on the command line nor in Spark's pages and event log."""
    catalog = {
        "uri": "postgresql+psycopg://me:word1@host/lake", "s3.secret-access-key": "word2",
        "s3.access-key-id": "word3", "token": "word4", "credential": "word5",
        "header.Authorization": "word6", "s3.sse.key": "word7",
    }  # fmt: skip
    conf = spark_conf(Settings(catalog=catalog))
    secret = {name for name, value in conf.items() if value == "me" or value.startswith("word")}
    assert len(secret) == 8
    assert not [name for name in secret if not is_member(name)]
    assert not [name for name in secret if not re.search(conf[SETTING], name)]
    # Of other settings, only those are hidden that Spark hides by itself (`SECRET_REDACTION_PATTERN`).
    hidden = {n for n in ("spark.a.password", "X_TOKEN", "spark.master") if re.search(conf[SETTING], n)}
    assert hidden == {"spark.a.password", "X_TOKEN"}
    assert not any(re.search(r"word\d", value) for name, value in conf.items() if not is_member(name))


@pytest.mark.parametrize(
    "line",
    [
        "spark.redaction.regex (?i)secret|my[.]vault",
        "  spark.redaction.regex = (?i)secret|my\\\\.vault  ",
        "spark.redaction.regex=none\nspark.redaction.regex:my[.]vault",
    ],
)
def test_what_others_hide_stays_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    """Lines are read as java.util.Properties reads them. The last one counts."""
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    (tmp_path / "spark-defaults.conf").write_text(f"# spark.redaction.regex x\nspark.app.name y\n{line}\n")
    settings = Settings(catalog={"token": "word"})
    # Java allows flags anywhere, Python only at the start.
    regex = spark_conf(settings)[SETTING].replace("(?:(?i)", "(?i:")
    hidden = {n for n in (f"{LAKE}.token", "the.my.vault.x", "none", "my-vault") if re.search(regex, n)}
    assert hidden == {f"{LAKE}.token", "the.my.vault.x"}
