"""Distributes rows of tables over tasks, in buckets."""

from __future__ import annotations

from collections import Counter
from itertools import chain

import pytest

from changeledger.spark.dealing import Dealing, Sizes


def alone(*rows: int) -> list[Sizes]:
    """Tables that share no rows."""
    return [{number: of} for number, of in enumerate(rows)]


def test_small_tables_have_one_bucket_and_share_tasks() -> None:
    assert Dealing.of(alone(50)) == (50, 1, [[0]])
    assert Dealing.of(alone(40_000)) == (40_000, 1, [[0]])
    assert Dealing.of(alone(*[50] * 4)) == (200, 1, [[0]] * 4)
    rows, number, tasks = Dealing.of(alone(*[50] * 40))
    assert (rows, number) == (2_000, 4)
    assert Counter(chain.from_iterable(tasks)) == {0: 10, 1: 10, 2: 10, 3: 10}


def test_tables_of_middle_size_are_apart() -> None:
    _, number, tasks = Dealing.of(alone(20_000, 20_000))
    assert number == 2
    assert sorted(map(list, tasks)) == [[0], [1]]


def test_large_tables_have_buckets_of_their_own() -> None:
    _, number, tasks = Dealing.of(alone(250_000, 250_000, 10))
    assert number == 11
    assert [len(of) for of in tasks] == [5, 5, 1]
    assert len({*tasks[0], *tasks[1]}) == 10


@pytest.mark.parametrize(
    ("rows", "most"),
    [
        ([500_000, *[25_000] * 20], 50_000),
        # Twelve buckets in eleven tasks: two buckets of the first table, which are smaller, share one.
        ([301_000, *[49_800] * 5], 86_000),
    ],
)
def test_tasks_have_about_as_much_to_do(rows: list[int], most: int) -> None:
    _, number, tasks = Dealing.of(alone(*rows))
    loads = [0] * number
    for of_table, table_rows in zip(tasks, rows, strict=True):
        for task in of_table:
            loads[task] += table_rows // len(of_table)
    assert max(loads) == most


def test_a_table_whose_rows_are_picked_by_keys_has_a_bucket_and_one_without_rows_has_none() -> None:
    assert Dealing.of([{}, {"picked": 0}, {}]) == (0, 1, [[], [0], []])
    assert Dealing.of([{}, {}]) == (0, 0, [[], []])


def test_shared_rows_count_once_and_each_table_may_have_all_of_them() -> None:
    rows, number, tasks = Dealing.of([{"topic": 500_000}] * 5)
    assert (rows, number) == (500_000, 10)
    assert [sorted(of) for of in tasks] == [[*range(10)]] * 5
    # A few shared rows keep as many tasks busy as their work requires, not as if each table had them alone.
    assert Dealing.of([{"topic": 30_000}] * 3).number == 2
    # A table that reads only their numbers gives them less weight.
    assert Dealing.of([{"topic": 500_000}, {"topic": 50_000}]).number == 10
