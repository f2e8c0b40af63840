"""Resets in the control store: what is asked waits, windows are resolved anew, one release is the end."""

from __future__ import annotations

from pathlib import Path

import pytest

from changeledger.control import Asked, AskedReset, BuiltSnapshots, ControlStore
from changeledger.model.errors import StageOrderError
from tests.control.test_control import FEED, hour, lsn
from tests.control.test_rollbacks import statuses, three
from tests.released import release

ASKED = AskedReset("the decoder was wrong", "ann")


@pytest.fixture
def store(tmp_path: Path) -> ControlStore:
    store = ControlStore(f"sqlite:///{tmp_path}/control.db")
    three(store)
    return store


def test_it_waits_and_moves_nothing(store: ControlStore) -> None:
    row = store.ask_reset(FEED, ASKED)
    assert (row.id, row.reason, row.by, row.accept_gap, row.release) == (1, ASKED.reason, "ann", False, None)
    assert store.position(FEED) == lsn(3)
    assert statuses(store, hour(0), hour(2)) == ["released", "released"]
    pending = store.pending_reset(FEED)
    assert pending is not None
    assert pending.asked_at == row.asked_at
    assert store.pending_reset("another") is None


def test_asked_again_after_a_crash_it_is_one(store: ControlStore) -> None:
    store.ask_reset(FEED, ASKED)
    assert store.ask_reset(FEED, ASKED).id == 1
    assert store.ask_reset(FEED, ASKED._replace(accept_gap=True, by="ben")).id == 2
    first, second = store.resets(FEED)
    assert (first.status, first.withdrawn_by, second.status) == ("withdrawn", "ben", "asked")


def test_what_was_built_before_cannot_be_published(store: ControlStore) -> None:
    built = BuiltSnapshots("branch", {"t": 9})
    store.open_window(FEED, hour(3), lsn(3), lsn(4))
    store.begin_stage(FEED, hour(3), "normalize")
    store.save_audit(FEED, hour(3), [], built)
    store.ask_reset(FEED, ASKED)
    assert statuses(store, hour(3)) == ["taken back"]
    with pytest.raises(StageOrderError, match="has not passed"):
        store.commit_release(FEED, hour(3), built.tables, {}, lsn(4))
    row = store.open_window(FEED, hour(3), {}, lsn(5))
    assert (row.status, row.from_position, row.to_position) == ("open", {}, lsn(5))


def test_its_release_sets_the_position_back_where_the_source_begins_anew(store: ControlStore) -> None:
    store.save_feed_table(FEED, "dbo.parts", 5, [hour(1).id])
    store.ask_reset(FEED, ASKED)
    assert release(store, FEED, [], hour(3), {"t": 9}, position=lsn(1)) == 4
    assert store.position(FEED) == lsn(1), "a topic that was made again begins at 0"
    (row,) = store.resets(FEED)
    assert (row.status, row.release) == ("published", 4)
    assert store.pending_reset(FEED) is None
    assert store.lacking(FEED) == [], "everything is read again"
    assert store.replaced_releases(FEED) == {3}
    release(store, FEED, [], hour(4), {"t": 10}, position=lsn(2))
    assert store.position(FEED) == lsn(2)
    assert [row.release for row in store.resets(FEED)] == [4]


def test_a_reset_can_be_taken_back_as_any_release(store: ControlStore) -> None:
    store.ask_reset(FEED, ASKED)
    release(store, FEED, [], hour(3), {"t": 9}, position=lsn(1))
    store.commit_rollback(FEED, 3, {"t": 2}, Asked("it was right before", "ben"))
    assert store.position(FEED) == lsn(3)
    assert store.pending_reset(FEED) is None


def test_withdrawn(store: ControlStore) -> None:
    assert store.withdraw_reset(FEED, "ben", "not now") is None
    store.ask_reset(FEED, ASKED)
    store.open_window(FEED, hour(3), {}, lsn(4))
    row = store.withdraw_reset(FEED, "ben", "not now")
    assert row is not None
    assert (row.status, row.withdrawn_by, row.withdrawn_reason) == ("withdrawn", "ben", "not now")
    assert store.pending_reset(FEED) is None
    assert statuses(store, hour(3)) == ["taken back"], "it was to read from the beginning"
    assert store.replaced_releases(FEED) == set()
