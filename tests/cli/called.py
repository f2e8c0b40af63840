"""Calls a command in the test's own process: a new process takes seconds to import the same modules."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from changeledger.cli.main import main


class Ended(NamedTuple):
    """Result of a command, with the names of `subprocess.CompletedProcess`."""

    returncode: int
    stdout: str
    stderr: str


def called(capsys: pytest.CaptureFixture[str], *arguments: str) -> Ended:
    """Runs `changeledger` with these arguments, in the environment of this process."""
    capsys.readouterr()
    code = 0
    try:
        main([*arguments])
    except SystemExit as ended:
        code = int(ended.code or 0)
    return Ended(code, *capsys.readouterr())
