"""A shell with the environment of an ended `make up` is told so within seconds."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from changeledger.cli import shell
from changeledger.model.errors import ConfigError, SourceUnavailable
from sourcelab.process import free_port

LOST = SourceUnavailable("it does not answer", "start it")


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "up 1" / "env"
    path.parent.mkdir()
    path.write_text("export SPARK_REMOTE=sc://127.0.0.1:1\n")
    monkeypatch.setenv(shell.FILE, str(path))
    monkeypatch.setenv("SPARK_REMOTE", "sc://127.0.0.1:1")
    return path


def test_another_shell_gets_no_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(shell.FILE, raising=False)
    assert shell.note(LOST) == ""


def test_a_service_of_this_make_up_is_lost(file: Path) -> None:
    assert f"check whether it runs. If you start it again, then `. '{file}'`" in shell.note(LOST)
    assert shell.note(ConfigError("another thing", "do it")) == ""


@pytest.mark.parametrize("error", [LOST, ConfigError("the login is refused", "correct it")])
def test_make_up_was_started_again(file: Path, error: SourceUnavailable | ConfigError) -> None:
    file.write_text("export SPARK_REMOTE=sc://127.0.0.1:2\n")
    assert f"was started again after this shell got its environment: `. '{file}'`" in shell.note(error)


def test_make_up_has_ended(file: Path) -> None:
    file.unlink()
    assert f"has ended: run it again, then `. '{file}'`" in shell.note(LOST)


def test_a_command_says_it_in_seconds(file: Path, tmp_path: Path) -> None:
    (tmp_path / "catalog.db").touch()
    environment = {**os.environ, "CHANGELEDGER_HOME": str(tmp_path)}
    file.unlink()
    began = time.monotonic()
    ended = subprocess.run(
        [sys.executable, "-m", "changeledger.cli", "query", "--spark", "SELECT 1"],
        env={**environment, "SPARK_REMOTE": f"sc://127.0.0.1:{free_port()}"}, check=False,
        capture_output=True, text=True,
    )  # fmt: skip
    assert "no Spark Connect server has answered" in ended.stderr
    assert "`make up` of this shell's environment has ended" in ended.stderr
    # Includes Python's start on a busy machine.
    assert (ended.stdout, ended.returncode, time.monotonic() - began < 30) == ("", 1, True)
