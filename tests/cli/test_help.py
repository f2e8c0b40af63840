"""`--help` lists exit codes, and the command line refuses wrong arguments."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest

from changeledger import exit_codes
from changeledger.config.settings import PROJECT
from tests.cli.called import called

COMMANDS = (
    [], ["query"], ["decode"], ["status"], ["compare"], ["verify"], ["quarantine"], ["release"],
    ["releases"], ["rollback"], ["reset"],
)  # fmt: skip
STAGES = ("extract", "normalize", "reconcile", "audit", "publish", "maintain", "compare", "verify")


def codes(text: str) -> dict[int, str]:
    _, _, listed = text.partition("exit codes:\n")
    return {int(line.split()[0]): line.split(maxsplit=1)[1] for line in listed.splitlines() if line.strip()}


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_commands_lists_the_exit_codes(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    answer = called(capsys, *command, "--help")
    assert answer.returncode == 0
    assert re.findall(r"^ *(\d): ", answer.stdout, re.MULTILINE) == ["0", "1", "2"]


@pytest.mark.parametrize("stage", STAGES)
def test_help_of_jobs_lists_the_exit_codes(
    stage: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = str(PROJECT / "jobs" / f"{stage}.py")
    monkeypatch.setattr(sys, "argv", [script, "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(script, run_name="__main__")
    assert ended.value.code == 0
    known = {exit_codes.FINAL, exit_codes.RETRY, exit_codes.HELD, exit_codes.NOTHING, exit_codes.NEEDS_SPARK}
    assert set(codes(capsys.readouterr().out)) == {0, 1, *known}


def test_a_refusal_stands_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "catalog.db").touch()
    monkeypatch.setenv("CHANGELEDGER_HOME", str(tmp_path))
    answer = called(capsys, "query", "DROP TABLE lake.shop.t")
    assert answer.returncode == 1
    assert answer.stdout == ""
    assert answer.stderr.startswith("`query` does not run DROP TABLE")
    assert "`query` changes nothing" in answer.stderr


def test_the_version_and_completion_are_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert re.fullmatch(r"changeledger \d+\.\d+\.\d+\n", called(capsys, "--version").stdout)
    assert "--install-completion" in called(capsys, "--help").stdout


def test_wrong_arguments_end_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    answer = called(capsys, "decode", "--dialect", "maxwell")
    assert (answer.returncode, answer.stdout) == (2, "")
    assert "not one of ces, debezium" in answer.stderr
