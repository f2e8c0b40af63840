"""The installation's folders hold copies of the source's rows, so only its user may read them."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from changeledger.audit.suites import private as private_docs
from changeledger.config.folders import private, private_home
from changeledger.config.settings import Settings
from changeledger.console import terminal
from changeledger.pages.html import note_failure
from changeledger.stages.common.context import control_store
from sourcelab import lab


@pytest.fixture(autouse=True)
def usual_umask() -> None:
    os.umask(0o022)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_what_is_missing_is_made_for_nobody_else(tmp_path: Path) -> None:
    private(tmp_path / "a" / "b")
    assert mode(tmp_path / "a") == mode(tmp_path / "a" / "b") == 0o700


@pytest.mark.parametrize(
    ("before", "after"), [(0o755, 0o750), (0o750, 0o750), (0o700, 0o700), (0o1777, 0o1777)]
)
def test_a_home_that_is_there(tmp_path: Path, before: int, after: int) -> None:
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(before)
    private_home(home)
    assert mode(home) == after


def test_whatever_makes_folders_of_an_installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "installation"
    monkeypatch.setenv("CHANGELEDGER_HOME", str(home))
    with terminal.spark_log("query"):
        pass
    assert mode(home) == mode(home / "logs") == 0o700
    note_failure(Settings().data_docs / "compare_shop" / "index.html", "it failed")
    assert mode(home / "data_docs" / "compare_shop") == 0o700
    assert private_docs is private
    home.chmod(0o755)
    control_store(Settings())
    assert mode(home) == 0o750


def test_the_folder_of_make_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab, "PROJECT", tmp_path)
    # `own_folder` changes its environment permanently.
    monkeypatch.setattr(os, "environ", dict(os.environ))
    with lab.own_folder("up") as (home, _):
        assert mode(home) == mode(home.parent) == 0o700
