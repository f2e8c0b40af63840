"""`changeledger quarantine replay` says what the feed's next run reads."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from changeledger.cli import quarantine
from changeledger.cli.commands import quarantine as commands
from changeledger.config.settings import Settings
from changeledger.control import ControlStore
from tests.cli.called import called


@pytest.mark.parametrize(
    ("count", "says"),
    [
        (2, "the next run of shop_ces reads 2 records again"),
        # Of a name that is misspelt, or asked for a second time.
        (0, "`changeledger quarantine list shop_ces` has none of this table, reason and run"),
    ],
)
def test_what_is_read_again(
    count: int, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CHANGELEDGER_HOME", str(tmp_path))
    ControlStore(Settings().control_url)
    monkeypatch.setattr(commands, "opened", lambda _: nullcontext())
    monkeypatch.setattr(quarantine, "replay", lambda *_: count)
    ended = called(capsys, "quarantine", "replay", "shop_ces", "--table", "dbo.custmers")
    assert ended.returncode == 0
    assert says in ended.stdout
