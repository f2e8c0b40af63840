"""The kernels of reconcile give the rows that the DataFrames give, row for row, while both are there."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.kernels.reconcile.tables import LedgerRow, all_at_once, ledger, rows_of
from tests.kernels.reconcile.test_history import OPERATIONS, Step, rows_for
from tests.kernels.reconcile.test_image_chain import CASES, FORMS
from tests.kernels.reconcile.test_image_chain import rows_for as rows_of_cases
from tests.key_moves import CONTRACT, Manner, invented, told

from changeledger import change
from changeledger.contract import Contract
from changeledger.kernels.reconcile.resolve import resolve
from changeledger.reconcile import chain, duplicates, history, pairs

MANNERS = (Manner(), Manner(equal=True), Manner(untold=frozenset("ab")), Manner(in_mid_stream=True))


def frame(spark: SparkSession, rows: Sequence[LedgerRow], contract: Contract) -> DataFrame:
    kinds = change.ledger_columns(contract)
    return spark.createDataFrame(
        [tuple(row.get(name) for name, _ in kinds) for row in rows],
        ", ".join(f"{change.quoted(name)} {kind}" for name, kind in kinds),
    )


def collected(rows: DataFrame) -> list[dict[str, Any]]:
    return in_order([row.asDict(recursive=True) for row in rows.collect()])


def in_order(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    plain = [{n: bytes(v) if isinstance(v, bytearray) else v for n, v in row.items()} for row in rows]
    return sorted(plain, key=lambda row: (str(row.get("id") or row.get("key")), str(row.get("_change_id")),
                                          str(row.get("change_id")), str(row.get("record"))))  # fmt: skip


def steps(rng: Random, count: int) -> list[LedgerRow]:
    """Of few keys, with gaps, truncates and rows of snapshots."""
    found = []
    for at in range(count):
        gaps = frozenset(name for name in "ab" if rng.random() < 0.3)
        a = None if "a" in gaps else rng.choice((None, 1, 2))
        b = None if "b" in gaps else rng.choice((None, "x", "y"))
        operation = "truncate" if rng.random() < 0.02 else rng.choice(OPERATIONS[:-1])
        found.append(Step(rng.randint(1, count // 8), operation, a, b, gaps, at))
    return rows_for(found)


def moves(rng: Random, count: int) -> list[LedgerRow]:
    return [row for number in range(count) for row in told(invented(rng), number, rng.choice(MANNERS)).rows]


def assert_same_history(spark: SparkSession, rows: Sequence[LedgerRow], contract: Contract) -> None:
    changes = frame(spark, rows, contract)
    emptied = history.truncates(changes)
    emptyings = None if emptied.isEmpty() else emptied
    wanted = history.intervals(history.effects(changes, contract), contract, "run", emptyings=emptyings)
    made = all_at_once(ledger(rows, contract), contract)
    assert in_order(rows_of(made.closed) + rows_of(made.opened)) == collected(wanted)
    found = [{n: v for n, v in row.items() if n != "run_id"} for row in rows_of(made.breaks)]
    assert in_order(found) == collected(chain.breaks(wanted, changes, contract))


@pytest.mark.parametrize("seed", range(3))
def test_history_and_breaks(spark: SparkSession, seed: int) -> None:
    assert_same_history(spark, steps(Random(seed), 400), CONTRACT)
    assert_same_history(spark, moves(Random(seed), 80), CONTRACT)


def test_breaks_of_values_in_other_forms(spark: SparkSession) -> None:
    rows = rows_of_cases((first, second) for first, second, _ in CASES.values())
    assert_same_history(spark, rows, FORMS)


@pytest.mark.parametrize("seed", range(3))
def test_resolved_rows(spark: SparkSession, seed: int) -> None:
    rng, rows = Random(seed), []
    for at in range(300):
        operation = rng.choice((change.INSERT, change.DELETE, change.UPDATE))
        side = "before" if operation == change.DELETE else "after"
        key, place = rng.randint(1, 50), rng.randint(1, 150).to_bytes(10)
        one: LedgerRow = {
            "change_id": f"c{at}", "operation": operation, "key": (key,), side: (key, at, "x"),
            "commit_lsn": place, "change_lsn": place, "sort_key": place + bytes([at % 256]),
            "record": ("t", 0, at, None), "run_id": "run",
        }  # fmt: skip
        rows += [one, {**one, "record": ("t", 1, at, None)}] if rng.random() < 0.1 else [one]
    published, new = list({row["change_id"]: row for row in rows[:150]}.values()), rows[100:]
    near, changes = frame(spark, published, CONTRACT), frame(spark, new, CONTRACT)
    again = duplicates.repeated(changes, near.select("change_id"))
    kept = changes.join(again, again.columns, "left_anti")
    candidates = kept.unionByName(near.where(near["operation"].isin(change.DELETE, change.INSERT)))
    halves = pairs.halves_of_key_updates(candidates)
    updates = collected(pairs.key_updates(candidates, halves, CONTRACT))
    made = resolve(ledger(new, CONTRACT), ledger(published, CONTRACT), CONTRACT, "run")
    found = in_order(rows_of(made.changes))
    gone = {name for pair in halves.collect() for name in pair}
    alone = [row for row in collected(kept) if row["change_id"] not in gone]
    assert found == in_order([*alone, *updates])
    assert sorted(r["detail"] for r in rows_of(made.duplicates)) == sorted(
        row["change_id"] for row in again.collect()
    )
