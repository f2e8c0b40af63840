"""The command line where there is no lake, and where a feed's file is broken."""

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

GOOD = (PROJECT / "include" / "feeds" / "shop_ces.yaml").read_text("utf-8")


def ran(home: Path, *arguments: str, feeds: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "CHANGELEDGER_HOME": str(home), "PYTHONPATH": str(PROJECT / "include")}
    if feeds is not None:
        environment["CHANGELEDGER_FEEDS"] = str(feeds)
    command = [sys.executable, "-m", "changeledger.cli", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=600)


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
def test_without_a_lake_nothing_is_made_up(tmp_path: Path, command: list[str]) -> None:
    ended = ran(tmp_path / "home", *command)
    assert ended.returncode == 1
    assert f"there is no lake in {tmp_path}/home" in ended.stderr
    assert "set CHANGELEDGER_HOME" in ended.stderr
    assert "`make up` prints it" in ended.stderr
    assert ended.stdout == ""
    assert not (tmp_path / "home").exists()


def test_a_broken_feed_blocks_the_status_of_no_other(tmp_path: Path) -> None:
    (tmp_path / "good.yaml").write_text(GOOD)
    (tmp_path / "bad.yaml").write_text(GOOD.replace("shop_ces", "shop_bad") + "retentions: P1D\n")
    home = tmp_path / "home"
    ControlStore(f"sqlite:///{home}/control.db")
    ended = ran(home, "status", feeds=tmp_path)
    assert ended.stdout.split()[:4] == ["shop_ces", "ces", "of", "shop"]
    assert "bad.yaml is not valid: retentions: unknown setting, did you mean `retention`?" in ended.stderr
    assert ended.returncode == 1, "one is missing"
    named = ran(home, "status", "shop_bad", feeds=tmp_path)
    assert (named.returncode, named.stdout) == (1, "")
    assert "bad.yaml is not valid" in named.stderr


@pytest.mark.parametrize("key", [["id"], ["=1"], ["id=1", "id=2"]])
def test_a_key_to_erase_has_each_column_once(tmp_path: Path, key: list[str]) -> None:
    ended = ran(tmp_path / "home", "erase", "shop_ces", "dbo.customers", *key)
    assert ended.returncode == 1
    assert "the key is named as COLUMN=VALUE, each column once" in ended.stderr


@pytest.mark.parametrize(("typed", "is_done"), [("dbo.customers\n", True), ("y\n", False), ("", False)])
def test_erasing_is_confirmed(monkeypatch: pytest.MonkeyPatch, typed: str, is_done: bool) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
    if is_done:
        lake.confirm("sure? ", "dbo.customers", "erased")
    else:
        with pytest.raises(ConfigError, match="nothing was erased"):
            lake.confirm("sure? ", "dbo.customers", "erased")
