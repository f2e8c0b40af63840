"""Assigns the buckets of tables to tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from functools import reduce
from itertools import chain
from operator import or_
from typing import NamedTuple

from changeledger.spark.readings import OPENING, evenly, for_few_rows
from changeledger.spark.tasks import BUCKET

# Approximate rows that go into a table's buckets, by `Origin.counted`.
Sizes = Mapping[Hashable, int]


class Dealing(NamedTuple):
    """`rows`: approximate rows of all tables. `number`: of tasks. `tasks`: by table, those of its buckets."""

    rows: int
    number: int
    tasks: Sequence[Sequence[int]]

    @classmethod
    def of(cls, tables: Sequence[Sizes]) -> Dealing:
        """Deals tables of these sizes. A small table has one bucket: its kernel runs once, into one file.

        Rows of an origin that several tables share count once in the total. How they divide is unknown, so
        each of these tables gets buckets for all of them.
        """
        buckets = [max(1, -(-sum(sizes.values()) // BUCKET)) if sizes else 0 for sizes in tables]
        shared = Counter(chain.from_iterable(tables))
        weights = [OPENING + sum(rows // shared[of] for of, rows in sizes.items()) for sizes in tables]
        rows = reduce(or_, map(Counter, tables), Counter[Hashable]()).total()
        of_buckets = [table for table, number in enumerate(buckets) for _ in range(number)]
        in_each = [weights[table] // buckets[table] for table in of_buckets]
        number = min(len(of_buckets), max(-(-rows // BUCKET), for_few_rows(sum(in_each))))
        tasks: list[list[int]] = [[] for _ in tables]
        for at, task in evenly(in_each, number):
            tasks[of_buckets[at]].append(task)
        return cls(rows, number, tasks)
