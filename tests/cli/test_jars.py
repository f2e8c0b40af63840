"""`changeledger jars`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.called import called


def test_a_folder_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The remedy names the folder of jars, not the lake's files."""
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("CHANGELEDGER_JARS", str(file / "spark"))
    ended = called(capsys, "jars")
    assert ended.returncode == 1
    assert "cannot be written: Not a directory" in ended.stderr
    assert "Remedy: set CHANGELEDGER_JARS to a folder 'spark'" in ended.stderr
