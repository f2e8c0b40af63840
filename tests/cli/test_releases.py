"""The list of releases shows what each published, and which were taken back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from changeledger.cli.release_tables import in_words, listed
from changeledger.control import Asked, ControlStore, taken_back
from changeledger.model.window import Window
from tests.control.test_control import FEED, hour, lsn
from tests.released import release

TABLE = "dbo.parts"


@pytest.fixture
def store(tmp_path: Path) -> ControlStore:
    return ControlStore(f"sqlite:///{tmp_path}/control.db")


def released(store: ControlStore, over: Window, current: int, tolerated: list[Any] | None = None) -> int:
    of_table = {"changes": {"insert": 2, "delete": 1}, "current": current, "history": 2 * current}
    counts = {"tables": {TABLE: of_table}, "tolerated": tolerated or []}
    return release(store, FEED, [], over, counts=counts, position=lsn(current))


def test_counts_by_table_against_the_release_before(store: ControlStore) -> None:
    released(store, hour(0), 5)
    released(store, hour(1), 3, [[TABLE, "keys_are_unique", 2, "known"]])
    second, first = listed(store.releases.of_feed(FEED))
    assert (first["release"], second["release"], second["tag"]) == (1, 2, "release_2")
    assert first["tables"][TABLE]["current_more"] == 5
    assert second["tables"][TABLE]["current_more"] == -2
    assert second["tolerated"] == [{"table": TABLE, "rule": "keys_are_unique", "rows": 2, "why": "known"}]
    assert second["taken_back"] is second["rolled_back_to"] is None
    said = "\n".join(map(str, in_words(second)))
    assert "dbo.parts: 3 changes, current 3 (-2), history 6 (-4)" in said
    assert "keys_are_unique (2): known" in said


def test_who_took_a_release_back_and_why(store: ControlStore) -> None:
    for number in range(3):
        released(store, hour(number), number)
    store.rollbacks.commit(FEED, 1, {}, Asked("wrong rows", "ann"))
    rows = {row["release"]: row for row in listed(store.releases.of_feed(FEED))}
    assert rows[4]["rolled_back_to"]["release"] == 1
    assert rows[1]["taken_back"] is rows[4]["taken_back"] is None
    for number in (2, 3):
        taken = rows[number]["taken_back"]
        assert (taken["rollback"], taken["by"], taken["why"]) == (4, "ann", "wrong rows")
    assert "4: wrong rows (ann" in str(in_words(rows[3])[-2])


def test_a_rollback_has_no_changes_of_its_own(store: ControlStore) -> None:
    released(store, hour(0), 5)
    both = {name: {"changes": {"insert": 9}, "current": 9, "history": 9} for name in (TABLE, "dbo.later")}
    release(store, FEED, [], hour(1), counts={"tables": both}, position=lsn(6))
    store.rollbacks.commit(FEED, 1, {}, Asked("wrong rows", "ann"))
    release(store, FEED, [], hour(2), counts={"tables": both}, position=lsn(7))
    again, rollback, *_ = listed(store.releases.of_feed(FEED))
    assert "dbo.parts: 0 changes, current 5 (-4), history 10 (+1)" in in_words(rollback)
    assert {name: of["current_more"] for name, of in again["tables"].items()} == {TABLE: 4, "dbo.later": 9}


def test_forward_again(store: ControlStore) -> None:
    for number in range(3):
        released(store, hour(number), number)
    store.rollbacks.commit(FEED, 1, {}, Asked("wrong rows", "ann"))
    store.rollbacks.commit(FEED, 3, {}, Asked("they were right", "ben"))
    takers = taken_back(store.releases.of_feed(FEED))
    assert {number: row.id for number, row in takers.items()} == {4: 5}


def test_many_tables_are_for_json(store: ControlStore) -> None:
    counts = {"tables": {f"dbo.t{n}": {"changes": {}, "current": 1, "history": 1} for n in range(12)}}
    release(store, FEED, [], hour(0), counts=counts, position=lsn(1))
    (row,) = listed(store.releases.of_feed(FEED))
    assert "and 2 more tables: --json" in str(in_words(row))
