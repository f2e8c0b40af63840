"""Resets in the control store: a request waits, windows are resolved anew, and one release ends the reset."""

from __future__ import annotations

from pathlib import Path

import pytest

from changeledger.control import Asked, AskedReset, BuiltSnapshots, ControlStore, SourceMark
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
    row = store.resets.ask(FEED, ASKED)
    assert (row.id, row.reason, row.by, row.accept_gap, row.release) == (1, ASKED.reason, "ann", False, None)
    assert store.windows.position(FEED) == lsn(3)
    assert statuses(store, hour(0), hour(2)) == ["released", "released"]
    pending = store.resets.pending(FEED)
    assert pending is not None
    assert pending.asked_at == row.asked_at
    assert store.resets.pending("another") is None


def test_asked_again_after_a_crash_it_is_one(store: ControlStore) -> None:
    store.resets.ask(FEED, ASKED)
    assert store.resets.ask(FEED, ASKED).id == 1
    assert store.resets.ask(FEED, ASKED._replace(accept_gap=True, by="ben")).id == 2
    first, second = store.resets.of_feed(FEED)
    assert (first.status, first.withdrawn_by, second.status) == ("withdrawn", "ben", "asked")


def test_what_was_built_before_cannot_be_published(store: ControlStore) -> None:
    built = BuiltSnapshots("branch", {"t": 9})
    store.windows.open(FEED, hour(3), lsn(3), lsn(4))
    store.windows.begin_stage(FEED, hour(3), "normalize")
    store.audits.save(FEED, hour(3), [], built)
    store.resets.ask(FEED, ASKED)
    assert statuses(store, hour(3)) == ["taken back"]
    with pytest.raises(StageOrderError, match="has not passed"):
        store.releases.commit(FEED, hour(3), built.tables, {}, lsn(4))
    row = store.windows.open(FEED, hour(3), {}, lsn(5))
    assert (row.status, row.from_position, row.to_position) == ("open", {}, lsn(5))


def test_its_release_sets_the_position_back_where_the_source_begins_anew(store: ControlStore) -> None:
    store.feed_tables.save(FEED, "dbo.parts", 5, [hour(1).id])
    store.sources.save_marks(FEED, {"t[0]": SourceMark("id of the topic before", 165, None)})
    store.resets.ask(FEED, ASKED)
    again = {source: SourceMark("id of the topic made again", 7, None) for source in ("t[0]", "t[1]")}
    store.sources.save_marks_of_reset(
        FEED, hour(3), {**again, "t[2]": SourceMark("of an earlier try", 9, None)}
    )
    store.sources.save_marks_of_reset(FEED, hour(2), {"t[0]": SourceMark("of a run that failed", 9, None)})
    store.sources.save_marks_of_reset(FEED, hour(3), again)
    assert store.sources.marks(FEED)["t[0]"].place == 165, "it may be withdrawn"
    assert release(store, FEED, [], hour(3), {"t": 9}, position=lsn(1)) == 4
    assert store.windows.position(FEED) == lsn(1), "a topic that was made again begins at 0"
    assert store.sources.marks(FEED) == again, "the next run knows the topics that it has read"
    (row,) = store.resets.of_feed(FEED)
    assert (row.status, row.release) == ("published", 4)
    assert store.resets.pending(FEED) is None
    assert store.feed_tables.lacking(FEED) == [], "everything is read again"
    assert store.resets.replaced_releases(FEED) == {3}
    release(store, FEED, [], hour(4), {"t": 10}, position=lsn(2))
    assert store.windows.position(FEED) == lsn(2)
    assert [row.release for row in store.resets.of_feed(FEED)] == [4]


def test_a_reset_can_be_taken_back_as_any_release(store: ControlStore) -> None:
    store.resets.ask(FEED, ASKED)
    release(store, FEED, [], hour(3), {"t": 9}, position=lsn(1))
    store.rollbacks.commit(FEED, 3, {"t": 2}, Asked("it was right before", "ben"))
    assert store.windows.position(FEED) == lsn(3)
    assert store.resets.pending(FEED) is None


def test_withdrawn(store: ControlStore) -> None:
    assert store.resets.withdraw(FEED, "ben", "not now") is None
    store.resets.ask(FEED, ASKED)
    store.windows.open(FEED, hour(3), {}, lsn(4))
    row = store.resets.withdraw(FEED, "ben", "not now")
    assert row is not None
    assert (row.status, row.withdrawn_by, row.withdrawn_reason) == ("withdrawn", "ben", "not now")
    assert store.resets.pending(FEED) is None
    assert statuses(store, hour(3)) == ["taken back"], "it was to read from the beginning"
    assert store.resets.replaced_releases(FEED) == set()


def test_sources_are_known_again_on_both_sides_of_a_reset(store: ControlStore) -> None:
    """A recreated topic has other records at the offsets of the releases before the reset."""
    old, new = ({"t[0]": SourceMark(f"the {which} topic", 3, "a hash")} for which in ("first", "second"))
    store.sources.save_marks(FEED, old)
    store.resets.ask(FEED, ASKED)
    release(store, FEED, [], hour(3), {"t": 9}, position=lsn(1))
    store.sources.save_marks(FEED, new)
    release(store, FEED, [], hour(4), {"t": 10}, position=lsn(2))
    asked = Asked("it was right before", "ben")
    for to, marks in ((5, new), (3, old), (2, old), (6, new), (4, new), (7, old)):
        store.rollbacks.commit(FEED, to, {"t": 2}, asked)
        assert store.sources.marks(FEED) == marks, to
    store.rollbacks.commit(FEED, 5, {"t": 10}, asked._replace(keep_position=True))
    assert store.sources.marks(FEED) == old, "the position is of the first topic still"
    store.rollbacks.commit(FEED, 5, {"t": 10}, asked)
    assert store.sources.marks(FEED) == new
