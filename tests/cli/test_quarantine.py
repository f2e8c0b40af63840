"""`changeledger quarantine replay` says what the feed's next run reads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from changeledger.cli import quarantine
from changeledger.cli.commands import quarantine as commands
from changeledger.config.settings import Settings
from changeledger.control import ControlStore
from changeledger.spark import rows
from changeledger.stages.extraction import replaying
from changeledger.state.quarantine import Chosen
from tests.cli.called import called
from tests.published_feeds import feed_of


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


def test_what_a_run_has_read_again_is_not_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command waits for the run, which empties the quarantine before it ends."""
    monkeypatch.setenv("CHANGELEDGER_HOME", str(tmp_path))
    control, feed = ControlStore(Settings().control_url), feed_of("shop_ces", "shop")
    control.leases.acquire(feed.feed, "a run", 60)
    position = {field.name: None for field in quarantine._REPLAY.field("source_position").type}
    quarantined: list[dict[str, Any]] = [{"window_id": "w", "source_position": position}]

    def records(*_: object) -> Iterator[dict[str, Any]]:
        yield from quarantined

    def end(_: str) -> None:
        quarantined.clear()
        control.leases.release(feed.feed, "a run")

    monkeypatch.setattr(quarantine, "records", records)
    monkeypatch.setattr(rows, "Workers", lambda _: SimpleNamespace(given=lambda t: SimpleNamespace(frame=t)))
    monkeypatch.setattr(replaying, "ask", lambda _spark, _feed, asked: len(asked))
    no_spark: Any = None
    assert quarantine.replay(no_spark, feed, Chosen(), end) == 0
