"""Work on a database has leases, as feeds do: one comparison at a time, and none beside an erasure.

Only the leases' tokens decide which of two writes is the later one (`control.lease`). There is no outside
source.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from changeledger.control import ControlStore, LeaseRow, ReleaseRow, holder_here, lease, lease_held
from changeledger.control.failures import failure_kept
from changeledger.control.processes import this_process
from changeledger.model.contract import Column, Contract
from changeledger.model.errors import ConfigError, LeaseHeld, LeaseLost, SourceUnavailable
from changeledger.pages.html import failure_noted
from changeledger.reports import page
from tests.control.test_control import FEED, hour, lsn
from tests.released import release
from tests.state.pairs import compare, prove

NOW = datetime(2026, 1, 31, 23, tzinfo=UTC)
HOUR = timedelta(hours=1)
COMPARISON, PROOFS = "compare_shop", "verify_shop"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/control.db"


@pytest.fixture
def mine(url: str) -> ControlStore:
    return ControlStore(url, process="mine")


@pytest.fixture
def other(url: str) -> ControlStore:
    return ControlStore(url, process="another")


def test_nothing_is_accepted_while_the_database_is_compared(mine: ControlStore, other: ControlStore) -> None:
    """A running comparison would store the disagreement again, and the acceptance would be lost."""
    compare(mine, 1, 2, NOW - HOUR, NOW, differs=1)
    with lease_held(other.leases, COMPARISON, "a comparison", 60):
        with pytest.raises(LeaseHeld, match="a comparison works on the comparison of 'shop' until"):
            mine.comparisons.accept("shop", "known", "ann")
        with pytest.raises(LeaseHeld):
            mine.leases.require_free(COMPARISON)
    assert mine.comparisons.accept("shop", "known", "ann") == 1
    mine.leases.require_free(COMPARISON)


def test_a_store_that_fails_as_well_does_not_hide_why_the_work_failed(
    mine: ControlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise SourceUnavailable("the control store does not answer", "start it")

    def work(error: BaseException) -> None:
        with monkeypatch.context() as patched, lease_held(mine.leases, COMPARISON, "a comparison", 60):
            for name in ("renew", "leave", "release"):
                patched.setattr(mine.leases, name, broken)
            raise error

    for error in (ConfigError("a wrong setting", "correct it"), KeyError("a bug"), KeyboardInterrupt()):
        with pytest.raises(type(error)) as raised:
            work(error)
        assert raised.value is error


def test_who_has_lost_the_lease_stores_no_result(mine: ControlStore, other: ControlStore) -> None:
    for name in (COMPARISON, PROOFS):
        mine.leases.acquire(name, "slow", 0)
        other.leases.acquire(name, "an erasure", 60)
    with pytest.raises(LeaseLost, match="has lost its lease on the comparison of 'shop' to an erasure"):
        compare(mine, 1, 2, NOW - HOUR, NOW, equal=1)
    other.leases.release(PROOFS, "an erasure")
    with pytest.raises(LeaseLost, match="has lost its lease on the proofs of 'shop' to another run;"):
        prove(mine, NOW)
    assert mine.comparisons.of_database("shop") == []
    assert mine.proofs.of_database("shop") == []


def test_who_has_lost_the_lease_moves_no_release(mine: ControlStore, other: ControlStore) -> None:
    release(mine, FEED, [], hour(0), {"lake.shop.t": 1}, position=lsn(1))
    newest = mine.releases.latest(FEED)
    assert newest is not None
    mine.leases.acquire(FEED, "an erasure", 0)
    other.leases.acquire(FEED, "the same, given again", 60)
    with pytest.raises(LeaseLost):
        mine.upkeep.move_release(newest, {"lake.shop.t": 2}, "dbo.t", {})
    moved = mine.releases.latest(FEED)
    assert isinstance(moved, ReleaseRow)
    assert moved.tables == {"lake.shop.t": 1}


def test_contracts_are_those_of_the_release(mine: ControlStore) -> None:
    """The second release adds a column. Readers of the first release's tables read them without it."""
    key = Column(name="id", type="int", ordinal=1, key_position=1)
    first = Contract(table="dbo.t", columns=(key,))
    second = Contract(table="dbo.t", columns=(key, Column(name="new", type="int", ordinal=2)))
    for number, contract in enumerate((first, second)):
        release(mine, FEED, [contract], hour(number), position=lsn(number))
    assert mine.contracts.of_feed(FEED, release=1) == {"dbo.t": first}
    assert mine.contracts.of_feed(FEED, release=2) == mine.contracts.of_feed(FEED) == {"dbo.t": second}


def test_a_lease_that_ran_out_before_its_heartbeat_ends_the_process(
    mine: ControlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For example, a job that is suspended between taking its lease and starting its work."""
    ended: list[Exception] = []
    mine.leases.acquire(FEED, "me", 60)
    mine.leases.taken_at[FEED] -= 61
    heartbeat = lease._Heartbeat(mine.leases, FEED, 60)

    def end(error: Exception) -> None:
        ended.append(error)
        heartbeat.over.set()

    monkeypatch.setattr(heartbeat, "_end", end)
    heartbeat.begin()
    assert heartbeat.over.wait(30)
    assert "it was not renewed for 60 s" in str(ended[0])


@pytest.fixture
def report(tmp_path: Path) -> Path:
    return tmp_path / COMPARISON / "index.html"


@pytest.mark.parametrize("error", [LeaseHeld("another compares", "wait"), LeaseLost("lost", "nothing")])
def test_that_another_process_does_the_work_is_no_failure(
    mine: ControlStore, report: Path, error: Exception
) -> None:
    """Neither the page nor `status` reports the comparison as failed. Its report is the other process's."""
    mine.failures.save_of_database(COMPARISON, "SourceUnavailable: before")
    written: list[str] = []

    def work() -> None:
        with (
            failure_noted(report),
            failure_kept(lambda: mine.failures, COMPARISON),
            page.written(lambda: written.append("report")),
        ):
            raise error

    with pytest.raises(type(error)):
        work()
    kept = mine.failures.of_feed(COMPARISON)
    assert kept is not None
    assert kept.error == "SourceUnavailable: before"
    assert not report.exists()
    assert written == []


def test_what_is_held_is_free_after_an_error(mine: ControlStore, other: ControlStore) -> None:
    def work() -> None:
        with lease_held(mine.leases, COMPARISON, "a comparison", 60):
            raise ValueError("a fault of ours")

    with pytest.raises(ValueError, match="a fault"):
        work()
    assert other.leases.acquire(COMPARISON, "the next one", 60) > 1
    assert isinstance(other.leases.of_feed(COMPARISON), LeaseRow)


def kill_holder(url: str, holder: str) -> None:
    """A process takes the lease of the comparison, and is killed."""
    code = (
        "import os, signal; from changeledger.control import ControlStore, holder_here\n"
        f"store = ControlStore({url!r}); store.leases.acquire({COMPARISON!r}, {holder}, 3600)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], check=False)
    assert ended.returncode == -signal.SIGKILL


def test_what_a_killed_process_has_held_is_free_at_once(url: str, other: ControlStore) -> None:
    """On its machine. The kernel says that it is gone: POSIX, kill(pid, 0), ESRCH."""
    kill_holder(url, "holder_here('compare_shop')")
    other.leases.require_free(COMPARISON)
    with lease_held(other.leases, COMPARISON, "the next one", 60):
        assert other.leases.of_feed(COMPARISON) is not None


def test_what_a_run_has_held_waits_for_its_next_try(url: str, other: ControlStore) -> None:
    """Its process ends with each stage, and the lease does not."""
    kill_holder(url, "'a run'")
    with pytest.raises(LeaseHeld, match="a run works on"):
        other.leases.acquire(COMPARISON, "another run", 60)


@pytest.mark.parametrize(
    "process",
    [
        "mine",
        # On another machine, in another container, where nobody knows when it has begun; and one that runs.
        f"id elsewhere {Path('/proc/self/ns/pid').readlink()} 999999999 1",
        f"id {socket.gethostname()} pid:[1] 999999999 1",
        f"id {socket.gethostname()} {Path('/proc/self/ns/pid').readlink()} 999999999 ?",
        this_process(),
    ],
    ids=["no process", "another machine", "another container", "unknown begin", "running"],
)
def test_a_process_that_may_run_keeps_its_lease(url: str, other: ControlStore, process: str) -> None:
    ControlStore(url, process=process).leases.acquire(COMPARISON, holder_here("compare_shop"), 60)
    with pytest.raises(LeaseHeld):
        other.leases.acquire(COMPARISON, "the next one", 60)


def test_a_number_that_is_given_again_is_another_process(url: str, other: ControlStore) -> None:
    """Processes differ by when they have begun: proc(5), field 22 of stat."""
    process = f"{this_process().rpartition(' ')[0]} 1"
    ControlStore(url, process=process).leases.acquire(COMPARISON, holder_here("compare_shop"), 60)
    assert other.leases.acquire(COMPARISON, "the next one", 60) == 2
