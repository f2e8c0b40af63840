"""Rows that exchange, shift and pass on their keys: history and current rows equal those of a plain model.

The model is in `tests.key_moves`. A tool may write the rows of a statement in any order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from itertools import pairwise
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from changeledger.kernels.arrow import history_schema
from changeledger.model import change
from changeledger.reconcile import history
from changeledger.reconcile.effects import exploded, keys_of
from changeledger.reconcile.key_moves import ORDER_UNKNOWN
from tests.key_moves import (
    AT,
    CONTRACT,
    PLAIN,
    SCENARIOS,
    SILENT,
    Life,
    Manner,
    Reported,
    Transaction,
    invented,
    joined,
    reported,
)
from tests.reconcile.tables import Lake, LedgerRow, intervals, ledger, rows_of

# Manners in which rows that are known from the beginning always distinguish a swap from a chain.
COMPLETE = (PLAIN, Manner(equal=True), SILENT, Manner(equal=True, knows_transaction=False))

SILENT_CELLS = dict.fromkeys(("a", "b"), change.UNAVAILABLE)
# A chain through an unused key, without before images, gives correct rows, but is still marked.
UNCERTAIN = frozenset({ORDER_UNKNOWN})
THROUGH_AN_UNUSED_KEY = {
    "shift twice", "shift, and the last one moves on", "chain in one transaction", "there and back again",
    "a chain, then a swap on it",
}  # fmt: skip


def lives(rows: Sequence[dict[str, Any]]) -> Counter[Life]:
    return Counter(
        (row["id"], row["a"], row["b"], row["_valid_from"], row["_valid_to"])
        for row in rows
        if not row["_is_deleted"]
    )


def alive(rows: Sequence[dict[str, Any]]) -> dict[int, tuple[Any, Any]]:
    opened = [row for row in rows if row["_valid_to"] is None and not row["_is_deleted"]]
    current = {row["id"]: (row["a"], row["b"]) for row in opened}
    assert len(current) == len(opened)
    return current


def assert_true(
    rows: Sequence[dict[str, Any]], truth: Reported, marked: frozenset[str] = frozenset()
) -> None:
    """Asserts that rows equal the truth, intervals go forward, and breaks have only the kinds `marked`."""
    assert lives(rows) == truth.lives
    assert alive(rows) == truth.alive
    assert {row["_break"]["kind"] for row in rows if row["_break"] is not None} <= marked
    assert all(row["_next_sort_key"] is None or row["_next_sort_key"] > row["_sort_key"] for row in rows)
    assert all(row["_valid_to"] is None or row["_valid_to"] >= row["_valid_from"] for row in rows)


def test_a_swap_word_by_word() -> None:
    """`UPDATE t SET id = CASE id WHEN 1 THEN 2 ELSE 1 END`, written as two updates, keeps both rows."""
    versions = intervals(reported(SCENARIOS["swap"], 0).rows, CONTRACT)
    end = AT + timedelta(minutes=1)
    of_swap = sorted(
        (row["id"], row["_change_id"], row["_is_deleted"], row["a"], row["_valid_from"], row["_valid_to"])
        for row in versions
        if row["id"] in {1, 2}
    )
    # Row 1 (a = 1) was inserted by 0.0, row 2 (a = 3) by 0.1. 0.4 moves 1 to 2, 0.5 moves 2 to 1.
    assert of_swap == [
        (1, "0.0", False, 1, AT, end), (1, "0.4", True, 1, end, end), (1, "0.5", False, 3, end, None),
        (2, "0.1", False, 3, AT, end), (2, "0.4", False, 1, end, None), (2, "0.5", True, 3, end, end),
    ]  # fmt: skip


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("manner", COMPLETE, ids=("plain", "equal", "silent", "no transaction"))
def test_scenarios(scenario: str, manner: Manner) -> None:
    truth = reported(SCENARIOS[scenario], 0, manner)
    versions = intervals(truth.rows, CONTRACT)
    is_marked = manner == SILENT and scenario in THROUGH_AN_UNUSED_KEY
    assert_true(versions, truth, UNCERTAIN if is_marked else frozenset())


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_scenarios_of_which_only_the_end_was_seen(scenario: str) -> None:
    """The keys are unknown at first: only images tell which row leaves a key."""
    truth = reported(SCENARIOS[scenario], 0, Manner(in_mid_stream=True))
    assert_true(intervals(truth.rows, CONTRACT), truth)


def test_a_swap_tells_that_an_unknown_key_holds_a_row() -> None:
    """So the next statement is a swap, too, even if its before images show only the keys."""
    truth = reported([[[(1, 2), (2, 1)], [(1, 2), (2, 1)]]], 0, Manner(in_mid_stream=True))
    for row in truth.rows[2:]:
        row |= {"before": (*row["before"][:1], None, None), "before_unknown_columns": SILENT_CELLS}
    assert_true(intervals(truth.rows, CONTRACT), truth)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), in_mid_stream=st.booleans())
def test_any_statements(seed: int, in_mid_stream: bool) -> None:
    rng = Random(seed)
    manners = (Manner(in_mid_stream=True),) if in_mid_stream else COMPLETE
    truth = joined(reported(invented(rng), number, rng.choice(manners)) for number in range(4))
    versions = intervals(rng.sample(truth.rows, len(truth.rows)), CONTRACT)
    assert_true(versions, truth, frozenset() if in_mid_stream else UNCERTAIN)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_by_buckets_as_at_once(seed: int) -> None:
    """A bucket has all rows of its keys: a change that moves a row is in the buckets of both keys."""
    rng = Random(seed)
    whole = joined(reported(invented(rng), number, rng.choice(COMPLETE)) for number in range(3))
    rows, none = exploded(ledger(whole.rows, CONTRACT)), ledger([], CONTRACT)
    buckets = [Random(f"{seed}{key}").randrange(4) for key in keys_of(rows).to_pylist()]
    nothing = history_schema(CONTRACT).empty_table()
    at_once = history.rebuilt(rows, nothing, none, CONTRACT, "run")
    parts = [
        history.rebuilt(rows.filter(pa.array([b == number for b in buckets])), nothing, none, CONTRACT, "run")
        for number in range(4)
    ]
    for name in ("closed", "opened", "breaks"):
        bucketed = [row for part in parts for row in rows_of(getattr(part, name))]
        assert sorted(bucketed, key=repr) == sorted(rows_of(getattr(at_once, name)), key=repr)


def test_what_nothing_distinguishes_is_said() -> None:
    """With an unknown key and a row that shows only its keys, the order is taken for a chain, and marked."""
    manner = SILENT._replace(in_mid_stream=True)
    rows = [
        *reported(SCENARIOS["there and back again"], 0, manner).rows,
        *reported(SCENARIOS["swap"], 1, manner).rows,
    ]
    versions = intervals(rows, CONTRACT)
    assert {
        row["id"]: row["b"] for row in versions if row["_valid_to"] is None and not row["_is_deleted"]
    } == {
        1: rows[1]["after"][2],
        101: rows[3]["after"][2],
    }
    broken = {(row["id"], row["_change_id"]): row["_break"] for row in versions if row["_break"] is not None}
    assert broken == {
        (key, f"{key // 100}.5"): {
            "kind": ORDER_UNKNOWN, "columns": None, "previous_change_id": f"{key // 100}.4",
        }
        for key in (5, 102)
    }  # fmt: skip


def test_a_row_that_arrives_takes_nothing_from_the_row_that_leaves() -> None:
    rows = reported(SCENARIOS["swap"], 0).rows
    for row in rows[4:]:
        row["after"], row["after_unknown_columns"] = (*row["after"][:2], None), {"b": change.UNAVAILABLE}
    versions = [row for row in intervals(rows, CONTRACT) if row["_valid_to"] is None and row["id"] in {1, 2}]
    assert [(row["b"], row["_unknown_columns"]) for row in versions] == [
        (None, {"b": change.UNAVAILABLE})
    ] * 2


def test_a_covered_row_must_be_as_it_was_left() -> None:
    """The image chain is also checked across a swap."""
    rows = reported(SCENARIOS["swap"], 0).rows
    rows[1]["after"] = (*rows[1]["after"][:2], "other")
    broken = [row for row in intervals(rows, CONTRACT) if row["_break"] is not None]
    assert [(row["id"], row["_change_id"], row["_break"]["columns"]) for row in broken] == [(2, "0.5", ["b"])]


def all_scenarios_in_windows() -> tuple[list[list[LedgerRow]], Reported]:
    """Cuts each scenario at each place. Its parts arrive in both orders, and then all of it is repeated."""
    windows: list[list[LedgerRow]] = [[], [], []]
    parts: list[Reported] = []
    for manner in (PLAIN, Manner(equal=True), Manner(in_mid_stream=True)):
        for scenario in SCENARIOS.values():
            length = len(reported(scenario, 0, manner).rows)
            for cut, backwards in ((cut, way) for cut in range(1, length) for way in (False, True)):
                part = reported(scenario, len(parts), manner)
                parts.append(part)
                cuts = part.rows[:cut], part.rows[cut:]
                windows[0] += cuts[backwards]
                windows[1] += cuts[not backwards]
                windows[2] += part.rows
    return windows, joined(parts)


def test_scenarios_in_any_windows() -> None:
    windows, truth = all_scenarios_in_windows()
    lake = Lake(CONTRACT, windows)
    assert_true(lake.shown("history"), truth)
    assert cells_of(lake) == truth.alive
    assert lake.shown("breaks") == []


def cells_of(lake: Lake) -> dict[int, tuple[Any, Any]]:
    return {key[0]: (row["a"], row["b"]) for key, row in lake.current.items()}


def cut(rows: Sequence[LedgerRow], ends: Sequence[int]) -> list[Sequence[LedgerRow]]:
    return [rows[begin:end] for begin, end in pairwise(ends)]


SWAP, CHANGE, MOVE = [[(1, 2), (2, 1)]], [[(2, 2)]], [[(2, 5)]]


def assert_of_key_2(lake: Lake, rows: Sequence[LedgerRow], *following: int) -> None:
    """Asserts the intervals of key 2 after a swap.

    Row 2 (a = 2) was inserted by 0.1 and left by 0.5. Row 1 (a = 1) took its place by 0.4.
    """
    of_key = [row for row in lake.shown("history") if row["id"] == 2]
    first, second = (rows[at]["after"][1] for at in (0, 1))
    assert sorted((row["_sort_key"], row["_change_id"], row["a"]) for row in of_key) == [
        (rows[1]["sort_key"], "0.1", second),
        (rows[4]["sort_key"], "0.5", second),
        (rows[5]["sort_key"], "0.4", first),
        *((rows[at]["sort_key"], f"0.{at}", first) for at in following),
    ]
    assert [row for row in lake.shown("breaks") if row["key"] == '{"id":2}'] == []


def test_a_row_leaves_at_the_time_at_which_a_swap_has_brought_it() -> None:
    """History is rebuilt from the position of 0.5 on, even if the row leaves in the same transaction."""
    rows = reported([SWAP, MOVE], 0).rows
    rows[6]["committed_at"] = rows[5]["committed_at"]
    assert_of_key_2(Lake(CONTRACT, cut(rows, (0, 6, 7))), rows, 6)


def test_history_is_built_again_from_the_midst_of_a_swap() -> None:
    """Late keys are rebuilt from the first late change on, even between the two changes of a swap."""
    rows = reported([SWAP, [[(3, 3)]], CHANGE, MOVE], 0).rows
    between = {**rows[6], "change_id": "late", "sort_key": rows[4]["sort_key"] + b"\x01"}
    assert_of_key_2(Lake(CONTRACT, ([*rows[:7], rows[8]], [between, rows[7]])), rows, 7, 8)


@pytest.mark.parametrize("statements", [[], [[(2, 4)], [(4, 6)]]], ids=["one", "two"])
def test_rows_pass_through_a_key_whose_row_has_gone_unseen(statements: Transaction) -> None:
    """The rows leave the key with their own images, not with that of the row whose delete is missing."""
    truth = reported([[[(4, None)]], [[(1, 4)], [(4, 5)], *statements]], 0)
    lake = Lake(CONTRACT, [[*truth.rows[:4], *truth.rows[5:]]])
    assert cells_of(lake) == truth.alive
    assert "row_was_there" in {broken["kind"] for broken in lake.shown("breaks")}
    lake.carry(truth.rows[4:5], 1)
    assert_true(lake.shown("history"), truth)
    assert lake.shown("breaks") == []


@pytest.mark.parametrize(
    "windows", [(0, 5), (0, 1, 5), (0, 2, 5), (0, 4, 5), (3, 5, 0, 3), (0, 1, 2, 3, 4, 5)]
)
def test_a_row_is_deleted_behind_the_insert_that_takes_its_key(windows: Sequence[int]) -> None:
    """Two updates, each written as insert, then delete. A delete shows the row before the update."""
    (row,) = reported([], 0).rows[:1]
    at_once = {**row, "committed_at": AT + timedelta(minutes=1), "transaction_id": "0.1"}
    images = [row["after"], (row["after"][0], 7, "new"), (row["after"][0], 8, "newer")]
    inserts = [{**at_once, "change_id": f"to {i[1]}", "after": i} for i in images]
    deletes = [
        {**at_once, "change_id": f"from {i[1]}", "operation": change.DELETE, "after": None, "before": i}
        for i in images
    ]
    rows = [row, inserts[1], deletes[0], inserts[2], deletes[1]]
    for place, of_two in enumerate(rows[1:]):
        of_two["sort_key"] = bytes([0xF0 + place])
    lake = Lake(CONTRACT, cut(rows, windows))
    assert cells_of(lake) == {1: (8, "newer")}
    of_key = [(r["_sort_key"], r["_change_id"], r["_is_deleted"], r["a"]) for r in lake.shown("history")]
    assert sorted(of_key) == [
        (row["sort_key"], "0.0", False, 1), (b"\xf0", "from 1", True, 1), (b"\xf1", "to 7", False, 7),
        (b"\xf2", "from 7", True, 7), (b"\xf3", "to 8", False, 8),
    ]  # fmt: skip
    assert lake.shown("breaks") == []


@pytest.mark.parametrize("shown", ["the inserted row", "the key alone", "another transaction"])
def test_a_row_that_is_inserted_and_deleted_is_gone(shown: str) -> None:
    """The key seems to have had a row before, but the delete shows another row, or none."""
    (row,) = reported([], 0).rows[:1]
    new = (row["after"][0], 7, "new")
    at_once = {"committed_at": AT + timedelta(minutes=1), "transaction_id": "0.1"}
    delete = {**row, **at_once, "change_id": "delete", "operation": change.DELETE, "sort_key": b"\xf1"}
    delete |= {"after": None, "before": new}
    if shown == "the key alone":
        delete |= {"before": (new[0], None, None), "before_unknown_columns": SILENT_CELLS}
    elif shown == "another transaction":
        delete |= {"before": row["after"], "transaction_id": "0.2"}
    insert = {**row, **at_once, "change_id": "insert", "after": new, "sort_key": b"\xf0"}
    lake = Lake(CONTRACT, [[row, insert, delete]])
    assert lake.current == {}
    assert {b["kind"] for b in lake.shown("breaks")} >= {"row_was_there"}


def in_transaction(number: int, at: int, row: LedgerRow, **cells: Any) -> LedgerRow:
    """`row` as a change of a later transaction. `cells`: its other cells."""
    place = bytes([0xF0 + number, at])
    named = {"change_id": f"{number}.{at}", "sort_key": place, "transaction_id": str(number)}
    images = {"before": None, "after": None, "committed_at": AT + timedelta(minutes=number)}
    return {**row, **named, **images, **cells}


def moved(number: int, at: int, row: LedgerRow, old: int, new: int) -> LedgerRow:
    _, *cells = row["after"]
    images = {"before": (old, *cells), "after": (new, *cells)}
    keys = {"previous_key": (old,), "key": (new,)}
    return in_transaction(number, at, row, operation=change.UPDATE, **keys, **images)


@pytest.mark.parametrize("windows", [(0, 8), (0, 5, 8), (5, 8, 0, 5), (0, 6, 8), (0, 7, 8), (7, 8, 0, 7)])
def test_a_row_is_deleted_behind_the_one_that_moves_to_its_key(windows: Sequence[int]) -> None:
    """A MERGE moves row 2 to key 1 and deletes the row there.

    The next statement moves 2 on, and 3 to key 1.
    """
    one, two, three, four = reported([], 0).rows
    delete = in_transaction(1, 1, one, operation=change.DELETE, before=one["after"])
    rows = [one, two, three, four, moved(1, 0, two, 2, 1), delete]
    rows += [moved(2, 0, three, 3, 1), moved(2, 1, two, 1, 5)]
    lake = Lake(CONTRACT, cut(rows, windows))
    alive_now = {key[0]: row["_change_id"] for key, row in lake.current.items()}
    assert alive_now == {1: "2.0", 4: four["change_id"], 5: "2.1"}
    assert lake.shown("breaks") == []


@pytest.mark.parametrize("windows", [(0, 7), (0, 6, 7), (6, 7, 0, 6), (0, 5, 6, 7), (0, 5, 7)])
def test_a_window_ends_between_the_halves_of_a_row_that_another_one_covers(windows: Sequence[int]) -> None:
    """A MERGE inserts a row at key 1 and moves the row there to key 5, in the order of `__$seqval`."""
    first = reported([], 0).rows
    one = first[0]
    place = {"commit_lsn": b"c" * 10, "change_lsn": b"m" * 10}
    rows = [
        *first,
        in_transaction(1, 0, one, after=(1, 7, "new")),
        in_transaction(1, 1, one, operation=change.DELETE, before=one["after"], **place),
        in_transaction(1, 2, one, key=(5,), after=(5, *one["after"][1:]), **place),
    ]
    lake = Lake(CONTRACT, cut(rows, windows))
    untouched = {row["after"][0]: row["after"][1:] for row in first[1:]}
    assert cells_of(lake) == {1: (7, "new"), 5: one["after"][1:], **untouched}
    assert lake.shown("breaks") == []


OF_ITS_COLUMNS = {"a deferred update of no captured column": {}, "of a large one": {"b": change.UNAVAILABLE}}


@pytest.mark.parametrize("unknown", OF_ITS_COLUMNS.values(), ids=OF_ITS_COLUMNS)
@pytest.mark.parametrize("windows", [(0, 6), (0, 5, 6), (5, 6, 0, 5), (0, 4, 6)])
def test_a_delete_that_shows_the_inserted_row_as_well(
    windows: Sequence[int], unknown: dict[str, str]
) -> None:
    """A delete that shows the same image as the insert does not remove the inserted row.

    SQL Server logs an update of a unique column as insert and delete if the value decreases (KB 4135113).
    Without that column, both images are the same. The row was lost then.
    """
    first = reported([], 0).rows
    _, a, b = first[0]["after"]
    after, before = (1, a, "new" if unknown else b), (1, a, None if unknown else b)
    rows = [
        *first,
        in_transaction(1, 0, first[0], operation=change.INSERT, after=after),
        in_transaction(
            1, 1, first[0], operation=change.DELETE, before=before, before_unknown_columns=unknown
        ),
    ]
    lake = Lake(CONTRACT, cut(rows, windows))
    assert cells_of(lake)[1] == after[1:]
    assert [row["kind"] for row in lake.shown("breaks")] == [ORDER_UNKNOWN]


@pytest.mark.parametrize("windows", [(0, 2), (0, 1, 2), (1, 2, 0, 1)])
def test_a_delete_of_another_row_behind_an_insert_at_a_key_that_nobody_has_seen(
    windows: Sequence[int],
) -> None:
    """Change tables have no first load, so the first known change of most rows is an update.

    Here, it is logged in the order of `__$seqval`.
    """
    one = reported([], 0).rows[0]
    rows = [
        in_transaction(1, 0, one, operation=change.INSERT, after=(1, 7, "new")),
        in_transaction(1, 1, one, operation=change.DELETE, before=one["after"]),
    ]
    lake = Lake(CONTRACT, cut(rows, windows))
    assert cells_of(lake) == {1: (7, "new")}
    assert lake.shown("breaks") == []


def test_a_row_that_is_inserted_and_deleted_at_once_at_a_key_that_nobody_has_seen_is_gone() -> None:
    one = reported([], 0).rows[0]
    insert = in_transaction(1, 0, one, operation=change.INSERT, after=one["after"])
    delete = in_transaction(1, 1, one, operation=change.DELETE, before=one["after"])
    assert Lake(CONTRACT, [[insert, delete]]).current == {}
