"""A rollback in the control store reverts position, windows, contracts and what tables lack together."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from changeledger.control import Asked, ControlStore, standing
from changeledger.model.contract import Column, Contract
from changeledger.model.window import Request, Window
from tests.control.test_control import FEED, hour, lsn
from tests.released import release

ASKED = Asked("wrong rows", "ann")


@pytest.fixture
def store(tmp_path: Path) -> ControlStore:
    return ControlStore(f"sqlite:///{tmp_path}/control.db")


def three(store: ControlStore) -> None:
    for number in range(3):
        release(store, FEED, [], hour(number), {"t": number}, position=lsn(number + 1))


def statuses(store: ControlStore, *windows: Window) -> list[str]:
    rows = [store.windows.row(FEED, window.id) for window in windows]
    return [row.status for row in rows if row is not None]


def test_one_commit_point(store: ControlStore) -> None:
    three(store)
    row = store.rollbacks.commit(FEED, 1, {"t": 0}, ASKED)
    assert (row.id, row.rolled_back_to, row.status, row.reason, row.by) == (
        4, 1, "committed", "wrong rows", "ann",
    )  # fmt: skip
    assert store.windows.position(FEED) == lsn(1)
    assert store.windows.reached(FEED) == hour(0).end
    assert statuses(store, hour(0), hour(1), hour(2)) == ["released", "taken back", "taken back"]
    assert [r.id for r in store.releases.incomplete(FEED)][-1] == 4
    of_first = store.releases.of_window(FEED, hour(0))
    assert of_first is not None
    assert of_first.id == 1, "a rollback is no release of the window"


def test_the_position_is_kept(store: ControlStore) -> None:
    three(store)
    row = store.rollbacks.commit(FEED, 1, {"t": 0}, ASKED._replace(keep_position=True))
    assert row.positions == store.windows.position(FEED) == lsn(3)
    assert store.windows.reached(FEED) == hour(2).end


def test_a_window_taken_back_is_resolved_anew_and_released_again(store: ControlStore) -> None:
    three(store)
    store.rollbacks.commit(FEED, 1, {"t": 0}, ASKED)
    assert release(store, FEED, [], hour(2), {"t": 9}, position=lsn(7)) == 5
    row = store.windows.row(FEED, hour(2).id)
    assert row is not None
    assert (row.status, row.from_position, row.to_position) == ("released", lsn(1), lsn(7))
    assert standing(store.releases.of_feed(FEED)) == {1, 4, 5}


def test_windows_that_would_pass_over_records(store: ControlStore) -> None:
    """An empty window moved the feed on. An open window begins where the last release ended."""
    three(store)
    store.windows.open(FEED, hour(3), lsn(3), lsn(4))
    store.windows.close_empty(FEED, hour(3), lsn(4))
    store.windows.open(FEED, hour(4), lsn(4), lsn(5))
    store.windows.open(FEED, hour(5), lsn(1), lsn(2))
    store.rollbacks.commit(FEED, 2, {"t": 1}, ASKED)
    assert statuses(store, hour(3), hour(4), hour(5)) == ["taken back", "taken back", "open"]


def test_forward_again(store: ControlStore) -> None:
    three(store)
    store.rollbacks.commit(FEED, 1, {"t": 0}, ASKED)
    store.rollbacks.commit(FEED, 3, {"t": 2}, ASKED)
    assert store.windows.position(FEED) == lsn(3)
    assert statuses(store, hour(1), hour(2)) == ["released", "released"]
    assert standing(store.releases.of_feed(FEED)) == {1, 2, 3, 5}
    for number in range(1, 6):
        store.releases.complete(FEED, number)
    assert [row.id for row in store.releases.after(FEED, 1)] == [2, 3]


def contract(*names: str) -> Contract:
    columns = (
        Column(name=name, type="int", ordinal=at, key_position=int(at == 1))
        for at, name in enumerate(names, 1)
    )
    return Contract(table="dbo.parts", columns=tuple(columns))


def test_contracts_go_back(store: ControlStore) -> None:
    first, second = contract("id"), contract("id", "more")
    release(store, FEED, [first], hour(0), position=lsn(1))
    release(store, FEED, [second], hour(1), position=lsn(2))
    store.rollbacks.commit(FEED, 1, {}, ASKED)
    assert store.contracts.of_table(FEED, "dbo.parts") == first
    store.rollbacks.commit(FEED, 2, {}, ASKED)
    assert store.contracts.of_table(FEED, "dbo.parts") == second


def test_a_table_lacks_what_windows_have_read_from_before_their_start(store: ControlStore) -> None:
    """The first window has read everything before it.

    The second hour's run failed, so the third hour's read both.
    """
    for number in (0, 2):
        release(store, FEED, [], hour(number), position=lsn(number))
    store.feed_tables.save(FEED, "dbo.parts", 5, [hour(2).id])
    release(store, FEED, [], Window(start=hour(2).start, end=hour(3).end), position=lsn(3))
    (row,) = store.feed_tables.lacking(FEED)
    assert (row.since, row.until) == (hour(0).end, hour(2).end)
    release(store, FEED, [], Window(start=hour(0).end, end=hour(3).end), position=lsn(4))
    assert store.feed_tables.lacking(FEED) == []
    store.feed_tables.save(FEED, "dbo.parts", 7, [hour(0).id, hour(2).id])
    (row,) = store.feed_tables.lacking(FEED)
    assert row.since == datetime(1970, 1, 1, tzinfo=UTC)


def test_what_other_runs_leave_to_a_window(store: ControlStore) -> None:
    """A replay before a window, and an earlier hour run after it, have not read what the window has read."""
    release(store, FEED, [], hour(0), position=lsn(1))
    replay = Request(mode="replay", run="manual__1")
    release(store, FEED, [], Window(start=hour(1).start, end=hour(1).end, request=replay), position=lsn(1))
    release(store, FEED, [], hour(2), position=lsn(3))
    release(store, FEED, [], hour(1), position=lsn(3))
    store.feed_tables.save(FEED, "dbo.parts", 5, [hour(2).id])
    (row,) = store.feed_tables.lacking(FEED)
    assert row.since == hour(0).end


def test_tables_lack_again_what_was_read_again(store: ControlStore) -> None:
    release(store, FEED, [], hour(1), position=lsn(1))
    store.feed_tables.save(FEED, "dbo.parts", 5, [hour(1).id])
    again = Window(start=datetime(1970, 1, 1, tzinfo=UTC), end=hour(2).end)
    release(store, FEED, [], again, position=lsn(2))
    assert store.feed_tables.lacking(FEED) == []
    store.rollbacks.commit(FEED, 1, {}, ASKED)
    assert [row.lacking for row in store.feed_tables.lacking(FEED)] == [5]
    store.rollbacks.commit(FEED, 2, {}, ASKED)
    assert store.feed_tables.lacking(FEED) == []
    store.feed_tables.forget(FEED, ["dbo.parts"])
    store.rollbacks.commit(FEED, 1, {}, ASKED)
    assert store.feed_tables.of_feed(FEED) == {}
