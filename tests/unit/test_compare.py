"""Two feeds of one log, change by change: every fault is found where it is, and nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.ledgers import PLAIN, Manner, contract_of, ledger

from changeledger.reconcile import compare
from changeledger.reconcile.compare import Columns, Side
from changeledger.reconcile.second_look import second_look
from sourcelab import faults
from sourcelab.log import Change, Log, Transaction, simulate
from sourcelab.tables import Table

pytestmark = pytest.mark.usefixtures("interpreted")

# (place, verdict, columns) of a finding.
Found = tuple[bytes, str, tuple[str, ...]]


def verdicts(
    spark: SparkSession,
    one: Log,
    other: Log,
    table: Table,
    manner: Manner = PLAIN,
    by_position: bool = True,
) -> tuple[Counter[str], list[Found]]:
    """How many pairs have each verdict or class, and the faults."""
    contract = contract_of(table)
    columns = Columns.of(contract, contract)
    sides = (
        Side(ledger(spark, one, table, feed="one"), contract),
        Side(ledger(spark, other, table, manner, feed="other"), contract),
    )
    first = compare.matched(*sides, columns, by_position).persist()
    faulty = first.where(first["verdict"].isin(*compare.FAULTS))
    looked = second_look(faulty, columns).collect()
    told = [row for row in first.collect() if row["verdict"] not in compare.FAULTS] + looked
    first.unpersist()
    counts = Counter(row["class"] or row["verdict"] for row in told)
    names = {**dict(enumerate(columns.names)), -1: compare.OPERATION}
    return counts, sorted(
        (bytes(row["place"]), row["verdict"], tuple(names[n] for n in row["columns"] or ()))
        for row in looked
        if row["verdict"] in compare.FAULTS
    )


def effects(changes: Iterable[tuple[Transaction, Change]], table: Table) -> list[bytes]:
    """The places of the effects of changes: one for each key, but for a delete that an insert follows."""
    told: dict[tuple[bytes, Any], list[str]] = {}
    for transaction, change in changes:
        if change.table is not table:
            continue
        steps = []
        if change.operation in {"delete", "key_update"}:
            assert change.before is not None
            steps.append((change.before, "d"))
        if change.after is not None:
            steps.append((change.after, "u" if change.operation == "update" else "i"))
        for row, step in steps:
            at = told.setdefault((transaction.commit_lsn, table.key_of(row)), [])
            if step == "i" and at and at[-1] == "d":
                at[-1] = "u"
            else:
                at.append(step)
    return sorted(place for (place, _), steps in told.items() for _ in steps)


@pytest.mark.parametrize("seed", range(2))
def test_feeds_that_tell_the_same_are_equal(spark: SparkSession, seed: int) -> None:
    log = simulate(seed, 25)
    for table in log.tables[:3]:
        counts, found = verdicts(spark, log, log, table)
        assert found == []
        assert counts == Counter(
            equal=len(effects(((t, c) for t in log.transactions for c in t.changes), table))
        )


def test_what_tools_tell_in_their_own_way_is_legitimate(spark: SparkSession) -> None:
    log = simulate(4, 40)
    table = log.table("sales.orders")
    told = [(t, c) for t in log.transactions for c in t.changes if c.table is table]
    everything = len(effects(told, table))
    counts, found = verdicts(spark, log, log, table, Manner(parts_key_updates=True))
    assert found == []
    # Deletes and inserts are what an update of a key is compared as: no difference is left.
    assert counts == Counter(equal=everything)
    counts, found = verdicts(
        spark, log, log, table, Manner(key_only_deletes=True, untold=frozenset({"weight"}))
    )
    assert found == []
    assert counts == Counter(not_sent=everything)


def test_without_lsns_keys_and_their_order_match(spark: SparkSession) -> None:
    log = simulate(5, 30)
    table = log.table("dbo.customers")
    counts, found = verdicts(spark, log, log, table, Manner(knows_lsn=False), by_position=False)
    assert (set(counts), found) == ({"equal"}, [])


@pytest.mark.parametrize("seed", range(2))
def test_a_lost_transaction_is_missing(spark: SparkSession, seed: int) -> None:
    log = simulate(seed, 30)
    told, fault = faults.lose(log, Random(seed).randrange(1, 30))
    for table in _touched(fault):
        _, found = verdicts(spark, log, told, table)
        assert found == [(place, "missing", ()) for place in effects(fault.changes, table)]
        # The other way round the same changes are more than the reference has.
        _, found = verdicts(spark, told, log, table)
        assert found == [(place, "extra", ()) for place in effects(fault.changes, table)]


@pytest.mark.parametrize("seed", range(2))
def test_a_changed_value_differs(spark: SparkSession, seed: int) -> None:
    log = simulate(seed, 30)
    rng = Random(seed)
    number = rng.choice(_with_values(log))
    told, fault = faults.change_value(log, number, rng)
    ((transaction, change),) = fault.changes
    _, found = verdicts(spark, log, told, change.table)
    assert found == [(transaction.commit_lsn, "differs", (fault.column,))]


@pytest.mark.parametrize("seed", range(2))
def test_a_doubled_change_is_extra(spark: SparkSession, seed: int) -> None:
    log = simulate(seed, 30)
    rng = Random(seed)
    numbers = [
        n
        for n, t in enumerate(log.transactions)
        if n and {c.operation for c in t.changes} & {"insert", "update"}
    ]
    told, fault = faults.double(log, rng.choice(numbers), rng)
    ((transaction, change),) = fault.changes
    _, found = verdicts(spark, log, told, change.table)
    assert found == [(transaction.commit_lsn, "extra", ())]


@pytest.mark.parametrize("seed", range(2))
def test_swapped_transactions_are_out_of_order(spark: SparkSession, seed: int) -> None:
    log = simulate(seed, 30)
    numbers = [
        n
        for n in range(1, 30)
        if not faults.keys_of(log.transactions[n]) & faults.keys_of(log.transactions[n + 1])
    ]
    told, fault = faults.swap(log, Random(seed).choice(numbers))
    for table in _touched(fault):
        _, found = verdicts(spark, log, told, table)
        assert found == [(place, "order", ()) for place in effects(fault.changes, table)]


@pytest.mark.parametrize("seed", range(2))
def test_all_faults_at_once_are_told_apart(spark: SparkSession, seed: int) -> None:
    log, rng = simulate(seed, 60), Random(seed)
    # Apart from each other in the log, and in their keys.
    told, changed = faults.change_value(log, next(n for n in _with_values(log) if n >= 10), rng)
    number = next(
        n
        for n in range(25, 40)
        if not faults.keys_of(log.transactions[n]) & faults.keys_of(log.transactions[n + 1])
    )
    told, swapped = faults.swap(told, number)
    told, lost = faults.lose(told, 50)
    for table in {t for fault in (changed, swapped, lost) for t in _touched(fault)}:
        expected: list[Found] = [(p, "missing", ()) for p in effects(lost.changes, table)]
        expected += [(p, "order", ()) for p in effects(swapped.changes, table)]
        for transaction, change in changed.changes:
            if change.table is table:
                expected.append((transaction.commit_lsn, "differs", (str(changed.column),)))
        _, found = verdicts(spark, log, told, table)
        assert found == sorted(expected)


def _touched(fault: faults.Fault) -> Sequence[Table]:
    return list({c.table.full_name: c.table for _, c in fault.changes}.values())


def _with_values(log: Log) -> list[int]:
    """Transactions that leave a row of a table with a column whose value every tool tells."""
    return [
        n
        for n, t in enumerate(log.transactions)
        if n
        and all(
            c.after is None
            or any(x.base in {"int", "decimal", "date", "bigint"} for x in c.table.free_columns)
            for c in t.changes
        )
        and any(c.after is not None for c in t.changes)
    ]
