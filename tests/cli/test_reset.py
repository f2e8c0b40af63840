"""`changeledger reset` asks for confirmation and keeps user and reason.

`status` and `releases` show a reset. It can be withdrawn.
"""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from changeledger.cli.main import main
from changeledger.config.settings import PROJECT
from changeledger.control import ControlStore
from changeledger.model.window import Window
from tests.control.test_control import hour, lsn
from tests.released import release

FEED = "shop_ces"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ControlStore:
    """The control store of an installation whose feed has published once."""
    monkeypatch.setenv("CHANGELEDGER_HOME", str(tmp_path))
    monkeypatch.setenv("CHANGELEDGER_FEEDS", str(PROJECT / "include" / "feeds"))
    store = ControlStore(f"sqlite:///{tmp_path}/control.db")
    published(store, hour(0))
    return store


def published(store: ControlStore, over: Window) -> None:
    store.releases.complete(FEED, release(store, FEED, [], over, {"t": 1}, position=lsn(1)))


def asked(*arguments: str) -> None:
    main(["reset", FEED, "--by", "ann", *arguments])


def test_it_is_confirmed(
    store: ControlStore, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("yes\n"))
    with pytest.raises(SystemExit):
        asked("--reason", "wrong rows")
    assert "nothing was reset, because it was not confirmed" in capsys.readouterr().err
    assert store.resets.pending(FEED) is None
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{FEED}\n"))
    asked("--reason", "wrong rows")
    row = store.resets.pending(FEED)
    assert row is not None
    assert (row.reason, row.by, row.accept_gap) == ("wrong rows", "ann", False)


def test_who_and_why(store: ControlStore, capsys: pytest.CaptureFixture[str]) -> None:
    asked("--yes", "--accept-gap", "--reason", "a snapshot was taken")
    main(["status", FEED])
    assert "loads the feed again from its source's beginning: a snapshot was taken (ann" in " ".join(
        capsys.readouterr().out.split()
    )
    published(store, hour(1))
    main(["releases", FEED, "--json"])
    newest, first = capsys.readouterr().out.splitlines()
    assert '"why": "a snapshot was taken", "accept_gap": true' in newest
    assert '"reset": null' in first


def test_withdrawn(store: ControlStore, capsys: pytest.CaptureFixture[str]) -> None:
    asked("--yes", "--reason", "wrong rows")
    asked("--withdraw", "--reason", "they are right")
    assert "reset 1 is withdrawn" in capsys.readouterr().out
    assert store.resets.pending(FEED) is None
    with pytest.raises(SystemExit):
        asked("--withdraw", "--reason", "again")
    assert "no waiting reset" in capsys.readouterr().err


def test_a_run_in_flight(store: ControlStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = ControlStore(f"sqlite:///{tmp_path}/control.db", process="another")
    other.leases.acquire(FEED, "a run", 60)
    with pytest.raises(SystemExit):
        asked("--yes", "--reason", "wrong rows")
    said = capsys.readouterr().err
    assert "a run works on the feed" in said
    assert "wait for that run to end" in said
    assert store.resets.pending(FEED) is None
