"""Rows that exchange, shift and pass on their keys: history and current are the table's own, whatever the
order in which a tool writes the rows of a statement. The truth is a plain model's (`tests.key_moves`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from tests.carried import LedgerRow, carry, feed_of, rows_of
from tests.key_moves import AT, CONTRACT, PLAIN, SCENARIOS, SILENT, Life, Manner, Told, invented, joined, told

from changeledger import change
from changeledger.reconcile import history, moves

# Where all is told from the beginning, nothing else is needed to know a swap from a chain.
COMPLETE = (PLAIN, Manner(equal=True), SILENT, Manner(equal=True, knows_transaction=False))

# A chain through a key that was never used, where before images tell nothing: right, and marked all the same.
UNCERTAIN = frozenset({moves.ORDER_UNKNOWN})


def ledger_of(spark: SparkSession, rows: Sequence[dict[str, Any]]) -> DataFrame:
    kinds = change.ledger_columns(CONTRACT)
    return spark.createDataFrame(
        [tuple(row.get(name) for name, _ in kinds) for row in rows],
        ", ".join(f"{change.quoted(name)} {kind}" for name, kind in kinds),
    )


def intervals(spark: SparkSession, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    made = history.intervals(history.effects(ledger_of(spark, rows), CONTRACT), CONTRACT, "run")
    return [row.asDict(recursive=True) for row in made.collect()]


def lives(rows: Sequence[dict[str, Any]]) -> Counter[Life]:
    return Counter(
        (row["id"], row["a"], row["b"], row["_valid_from"], row["_valid_to"])
        for row in rows
        if not row["_is_deleted"]
    )


def alive(rows: Sequence[dict[str, Any]]) -> dict[int, tuple[Any, Any]]:
    opened = [row for row in rows if row["_valid_to"] is None and not row["_is_deleted"]]
    found = {row["id"]: (row["a"], row["b"]) for row in opened}
    assert len(found) == len(opened)
    return found


def assert_true(rows: Sequence[dict[str, Any]], truth: Told, marked: frozenset[str] = frozenset()) -> None:
    """Nothing but the truth, intervals that go forward, and no break but those of the kinds `marked`."""
    assert lives(rows) == truth.lives
    assert alive(rows) == truth.alive
    assert {row["_break"]["kind"] for row in rows if row["_break"] is not None} <= marked
    assert all(row["_next_sort_key"] is None or row["_next_sort_key"] > row["_sort_key"] for row in rows)
    assert all(row["_valid_to"] is None or row["_valid_to"] >= row["_valid_from"] for row in rows)


def test_a_swap_word_by_word(spark: SparkSession) -> None:
    """`UPDATE t SET id = CASE id WHEN 1 THEN 2 ELSE 1 END`, written as two updates: both rows are there."""
    found = intervals(spark, told(SCENARIOS["swap"], 0).rows)
    end = AT + timedelta(minutes=1)
    of_swap = sorted(
        (row["id"], row["_change_id"], row["_is_deleted"], row["a"], row["_valid_from"], row["_valid_to"])
        for row in found
        if row["id"] in {1, 2}
    )
    # Row 1 (a = 1) was inserted by 0.0, row 2 (a = 3) by 0.1; 0.4 takes 1 to 2, 0.5 takes 2 to 1.
    assert of_swap == [
        (1, "0.0", False, 1, AT, end), (1, "0.4", True, 1, end, end), (1, "0.5", False, 3, end, None),
        (2, "0.1", False, 3, AT, end), (2, "0.4", False, 1, end, None), (2, "0.5", True, 3, end, end),
    ]  # fmt: skip


@pytest.mark.parametrize("manner", COMPLETE, ids=("plain", "equal", "silent", "no transaction"))
def test_scenarios(spark: SparkSession, manner: Manner) -> None:
    truth = joined(told(one, number, manner) for number, one in enumerate(SCENARIOS.values()))
    assert_true(intervals(spark, truth.rows), truth, UNCERTAIN if manner == SILENT else frozenset())


def test_scenarios_of_which_only_the_end_was_seen(spark: SparkSession) -> None:
    """Nothing was known of the keys: the images alone say which row leaves a key."""
    manner = Manner(in_mid_stream=True)
    truth = joined(told(one, number, manner) for number, one in enumerate(SCENARIOS.values()))
    assert_true(intervals(spark, truth.rows), truth)


@settings(max_examples=4, deadline=None, phases=(Phase.generate,))
@given(seed=st.integers(0, 2**32), in_mid_stream=st.booleans())
def test_any_statements(spark: SparkSession, seed: int, in_mid_stream: bool) -> None:
    rng = Random(seed)
    manners = (Manner(in_mid_stream=True),) if in_mid_stream else COMPLETE
    truth = joined(told(invented(rng), number, rng.choice(manners)) for number in range(60))
    found = intervals(spark, rng.sample(truth.rows, len(truth.rows)))
    assert_true(found, truth, frozenset() if in_mid_stream else UNCERTAIN)


def test_what_nothing_tells_apart_is_said(spark: SparkSession) -> None:
    """A key of which nothing was known, and a row that shows its keys alone: taken for a chain, marked."""
    manner = SILENT._replace(in_mid_stream=True)
    rows = [
        *told(SCENARIOS["there and back again"], 0, manner).rows,
        *told(SCENARIOS["swap"], 1, manner).rows,
    ]
    found = intervals(spark, rows)
    assert {row["id"]: row["b"] for row in found if row["_valid_to"] is None and not row["_is_deleted"]} == {
        1: rows[1]["after"][2],
        101: rows[3]["after"][2],
    }
    broken = {(row["id"], row["_change_id"]): row["_break"] for row in found if row["_break"] is not None}
    assert broken == {
        (key, f"{key // 100}.5"): {
            "kind": moves.ORDER_UNKNOWN, "columns": None, "previous_change_id": f"{key // 100}.4",
        }
        for key in (5, 102)
    }  # fmt: skip


def test_a_row_that_arrives_takes_nothing_from_the_row_that_leaves(spark: SparkSession) -> None:
    rows = told(SCENARIOS["swap"], 0).rows
    for row in rows[4:]:
        row["after"], row["after_gaps"] = (*row["after"][:2], None), {"b": change.UNAVAILABLE}
    found = [row for row in intervals(spark, rows) if row["_valid_to"] is None and row["id"] in {1, 2}]
    assert [(row["b"], row["_gaps"]) for row in found] == [(None, {"b": change.UNAVAILABLE})] * 2


def test_a_covered_row_must_be_as_it_was_left(spark: SparkSession) -> None:
    """The image chain is judged through a swap, too."""
    rows = told(SCENARIOS["swap"], 0).rows
    rows[1]["after"] = (*rows[1]["after"][:2], "other")
    broken = [row for row in intervals(spark, rows) if row["_break"] is not None]
    assert [(row["id"], row["_change_id"], row["_break"]["columns"]) for row in broken] == [(2, "0.5", ["b"])]


def test_scenarios_in_any_windows(spark: SparkSession) -> None:
    """Each scenario cut at each place, its parts in order and the other way round, and all once more."""
    windows: list[list[LedgerRow]] = [[], [], []]
    parts: list[Told] = []
    for manner in (PLAIN, Manner(equal=True), Manner(in_mid_stream=True)):
        for scenario in SCENARIOS.values():
            length = len(told(scenario, 0, manner).rows)
            for cut, backwards in ((cut, way) for cut in range(1, length) for way in (False, True)):
                one = told(scenario, len(parts), manner)
                parts.append(one)
                cuts = one.rows[:cut], one.rows[cut:]
                windows[0] += cuts[backwards]
                windows[1] += cuts[not backwards]
                windows[2] += one.rows
    truth, feed = joined(parts), feed_of("key_moves", CONTRACT)
    for number, rows in enumerate(windows):
        carry(spark, feed, CONTRACT, rows, number)
    assert_true(rows_of(spark, feed, "dbo_t_history"), truth)
    current = {row["id"]: (row["a"], row["b"]) for row in rows_of(spark, feed, "dbo_t")}
    assert current == truth.alive
    assert rows_of(spark, feed, "breaks") == []
