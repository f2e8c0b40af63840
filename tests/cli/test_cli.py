"""The command line without a lake, and with a broken feed file."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from changeledger.cli import lake
from changeledger.config.settings import PROJECT
from changeledger.control import ControlStore
from changeledger.model.errors import ConfigError
from tests.cli.called import called

GOOD = (PROJECT / "include" / "feeds" / "shop_ces.yaml").read_text("utf-8")


def ran(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs a command in a new process."""
    environment = {**os.environ, "CHANGELEDGER_HOME": str(home), "PYTHONPATH": str(PROJECT / "include")}
    command = [sys.executable, "-m", "changeledger.cli", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=600)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation that does not exist yet."""
    monkeypatch.setenv("CHANGELEDGER_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.mark.parametrize(
    "command",
    [
        ["status"],
        ["query", "SELECT 1"],
        ["compare", "shop"],
        ["quarantine", "replay", "shop_ces"],
        ["erase", "shop_ces", "dbo.customers", "id=1"],
        ["releases", "shop_ces"],
        ["rollback", "shop_ces", "1", "--reason", "wrong rows"],
        ["reset", "shop_ces", "--yes", "--reason", "wrong rows"],
    ],
)
def test_without_a_lake_nothing_is_made_up(
    home: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    ended = called(capsys, *command)
    assert ended.returncode == 1
    assert f"there is no lake in {home}" in ended.stderr
    assert "set CHANGELEDGER_HOME" in ended.stderr
    assert "`make up` prints it" in ended.stderr
    assert ended.stdout == ""
    assert not home.exists()


def test_a_broken_feed_blocks_the_status_of_no_other(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CHANGELEDGER_FEEDS", str(tmp_path))
    (tmp_path / "good.yaml").write_text(GOOD)
    (tmp_path / "bad.yaml").write_text(GOOD.replace("shop_ces", "shop_bad") + "retentions: P1D\n")
    ControlStore(f"sqlite:///{home}/control.db")
    ended = called(capsys, "status")
    assert ended.stdout.split()[:4] == ["shop_ces", "ces", "of", "shop"]
    assert "bad.yaml is not valid: retentions: unknown setting, did you mean `retention`?" in ended.stderr
    assert ended.returncode == 1, "one is missing"
    named = called(capsys, "status", "shop_bad")
    assert (named.returncode, named.stdout) == (1, "")
    assert "bad.yaml is not valid" in named.stderr


def test_a_folder_without_feeds_is_none_of_feeds_that_stand_well(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ControlStore(f"sqlite:///{home}/control.db")
    monkeypatch.setenv("CHANGELEDGER_FEEDS", str(tmp_path / "wrong"))
    ended = called(capsys, "status")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert f"there is no feed in {tmp_path / 'wrong'}" in ended.stderr


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("compare", "shop", "--full", "--accept", "known"), "--full compares, but --accept does not"),
        (("tables", "shop_cdc", "--reason", "known"), "--reason is only for --decline"),
        (
            ("reset", "shop_cdc", "--withdraw", "--accept-gap", "--reason", "known"),
            "--accept-gap is for a reset, but --withdraw takes one back",
        ),
    ],
)
def test_options_that_do_not_go_together(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    """One of the options would be ignored."""
    ended = called(capsys, *arguments)
    assert ended.returncode != 0
    assert said in ended.stderr


def test_accepting_needs_a_reason(capsys: pytest.CaptureFixture[str]) -> None:
    ended = called(capsys, "compare", "shop", "--accept", " ")
    assert ended.returncode == 1
    assert "--accept is empty" in ended.stderr


@pytest.mark.parametrize("key", [["id"], ["=1"], ["id=1", "id=2"]])
@pytest.mark.usefixtures("home")
def test_a_key_to_erase_has_each_column_once(key: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    ended = called(capsys, "erase", "shop_ces", "dbo.customers", *key)
    assert ended.returncode == 1
    assert "the key must be given as COLUMN=VALUE, each column once" in ended.stderr


@pytest.mark.parametrize(("typed", "is_done"), [("dbo.customers\n", True), ("y\n", False), ("", False)])
def test_erasing_is_confirmed(monkeypatch: pytest.MonkeyPatch, typed: str, is_done: bool) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
    if is_done:
        lake.confirm("sure? ", "dbo.customers", "erased")
    else:
        with pytest.raises(ConfigError, match="nothing was erased"):
            lake.confirm("sure? ", "dbo.customers", "erased")
