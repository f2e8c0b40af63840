"""Options with which a job starts its JVM."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from changeledger.config.settings import Settings
from changeledger.spark.session import local_conf
from sourcelab.services import java


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.delenv("JAVA_TOOL_OPTIONS", raising=False)
    (tmp_path / "my jars").mkdir()
    (tmp_path / "my jars" / "one.jar").touch()
    return Settings(home=tmp_path, jars=tmp_path / "my jars")


def options(settings: Settings) -> list[str]:
    return shlex.split(local_conf(settings)["spark.driver.extraJavaOptions"])


def java_ends(settings: Settings) -> subprocess.CompletedProcess[str]:
    """Starts a JVM with the options of a job."""
    return subprocess.run(
        [java(), *options(settings), "-version"], capture_output=True, text=True, check=False
    )


def test_an_archive_of_classes_is_named_where_there_is_one(settings: Settings) -> None:
    assert not any("SharedArchiveFile" in option for option in options(settings))
    archive = settings.jars / "classes-0123456789abcdef.jsa"
    archive.touch()
    assert f"-XX:SharedArchiveFile={archive}" in options(settings)


@pytest.mark.parametrize("chosen", ["", "-Xmx64m", "-XX:+UseSerialGC", "-Xmx64m -XX:+UseG1GC -Dx=y"])
def test_java_starts_whatever_collector_the_environment_has_chosen(
    settings: Settings, chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", chosen)
    assert ("-XX:+UseParallelGC" in options(settings)) == ("GC" not in chosen)
    ended = java_ends(settings)
    assert ended.returncode == 0, ended.stderr


def test_java_starts_with_an_archive_that_is_none(settings: Settings) -> None:
    (settings.jars / "classes-0123456789abcdef.jsa").write_text("of another Java")
    ended = java_ends(settings)
    assert ended.returncode == 0, ended.stderr
    assert not ended.stdout, "Spark's own output is not disturbed"


_FAILING = """
from changeledger.spark.session import spark_session

spark = spark_session("silent")
try:
    spark.sql("SELECT CAST(concat('An', id, 'n') AS INT) FROM range(1)").collect()
except Exception as error:
    print("caught", "An0n" in str(error))
"""


@pytest.mark.parametrize("hidden", ["false", "true"])
def test_spark_logs_no_value_where_values_are_hidden(tmp_path: Path, hidden: str) -> None:
    """By default, Spark logs a task's error three times, with the value that is not a number."""
    here = {**os.environ, "CHANGELEDGER_HOME": str(tmp_path), "CHANGELEDGER_REDACT_VALUES": hidden}
    ended = subprocess.run(
        [sys.executable, "-c", _FAILING], env=here, capture_output=True, text=True, check=True
    )
    assert "caught True" in ended.stdout
    assert ("An0n" in ended.stdout + ended.stderr) == (hidden == "false")
