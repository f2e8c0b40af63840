"""`changeledger quarantine replay` prints what the feed's next run reads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from changeledger.cli import quarantine
from changeledger.cli.commands import erase as erasing
from changeledger.cli.commands import quarantine as commands
from changeledger.config.settings import Settings
from changeledger.control import ControlStore
from changeledger.kernels.arrow import table_schema
from changeledger.lake import catalog, new_tables
from changeledger.model import change
from changeledger.model.errors import ConfigError
from changeledger.spark import rows
from changeledger.stages.extraction import replaying
from changeledger.state.quarantine import Chosen
from tests.cli.called import called
from tests.published_feeds import feed_of


@pytest.mark.parametrize(
    ("count", "says"),
    [
        (2, "the next run of shop_ces reads 2 records again"),
        # Asked for a second time.
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
    ended = called(capsys, "quarantine", "replay", "shop_ces", "--table", "DBO.Customers")
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


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("quarantine list shop_ces --table dbo.custmers", "the table 'dbo.custmers'.*mean 'dbo.customers'"),
        (
            "quarantine show shop_ces --reason table_mismach",
            "the reason 'table_mismach'.*did you mean 'table_mismatch'",
        ),
        ("quarantine replay shop_ces --run 20260131", "the run '20260131'.*quarantine list shop_ces"),
        (
            "tables shop_ces --decline dbo.custmers --reason no",
            "no table 'dbo.custmers'.*mean 'dbo.customers'",
        ),
        ("compare shop --accept known --feed shop_cess", "no feed 'shop_cess'.*did you mean 'shop_ces'"),
        ("compare shop --accept known --table dbo.custmers", "table 'dbo.custmers'.*mean 'dbo.customers'"),
        ("erase shop_ces dbo.custmers id=1", "no table dbo.custmers.*did you mean 'dbo.customers'"),
    ],
)
def test_a_name_that_nothing_has(
    command: str,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It chose no record, as if all were well."""
    monkeypatch.setenv("CHANGELEDGER_HOME", str(tmp_path))
    ControlStore(Settings().control_url)
    for module in (commands, erasing):
        monkeypatch.setattr(module, "opened", lambda _: nullcontext())
    ended = called(capsys, *command.split())
    assert ended.returncode == 1
    assert re.search(said, ended.stderr, re.DOTALL)


def test_a_name_that_the_quarantine_alone_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records of a table that the feed does not list, by a run that was taken out of the control store, with
    a reason of an earlier version."""
    monkeypatch.setenv("CHANGELEDGER_HOME", str(tmp_path))
    ControlStore(Settings().control_url)
    feed = feed_of("shop_ces", "shop")
    catalog.create_namespace(feed.namespace)
    schema = table_schema(change.QUARANTINE_COLUMNS)
    new_tables.create(feed.lake.quarantine, schema)
    row = {"window_id": "w", "table": "dbo.other", "reason": "gone"}
    catalog.load(feed.lake.quarantine).append(pa.Table.from_pylist([row], schema))
    names = ("dbo.other", "gone", "w")
    assert quarantine.chosen(feed, *names) == Chosen(*names)
    assert len(quarantine.summary(feed, quarantine.chosen(feed, *names))) == 1
    with pytest.raises(ConfigError, match="the reason 'gon'") as refused:
        quarantine.chosen(feed, None, "gon", None)
    assert refused.value.remedy == "did you mean 'gone'?"
