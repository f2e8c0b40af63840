"""Two feeds of one log, change by change: every fault is found where it is, and nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any, NamedTuple

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import Row as SparkRow
from pyspark.sql import functions as F
from tests.ledgers import PLAIN, Manner, apart, changes, contract_of, joined, ledger

from changeledger.reconcile import compare
from changeledger.reconcile.compare import Columns, Side
from changeledger.reconcile.first_look import first_look
from changeledger.reconcile.second_look import second_look
from sourcelab import faults
from sourcelab.faults import Fault
from sourcelab.log import Change, Log, Transaction, simulate
from sourcelab.tables import Table

SEEDS = range(10)


class Found(NamedTuple):
    """`change`: the serial in the log of the one that is told wrongly."""

    place: bytes
    verdict: str
    columns: tuple[str, ...]
    change: int


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
    alike, within = 0, None
    if by_position:
        seen = first_look(*sides, columns).persist()
        alike = seen.where("alike").count()
        within = seen.where("NOT alike").select(*compare.PLACE)
    first = compare.matched(*sides, columns, by_position, within).persist()
    faulty = first.where(first["verdict"].isin(*compare.FAULTS))
    looked = second_look(faulty, columns).collect()
    told = [row for row in first.collect() if row["verdict"] not in compare.FAULTS] + looked
    first.unpersist()
    counts = Counter(row["class"] or row["verdict"] for row in told) + Counter(equal=alike)
    names = {**dict(enumerate(columns.names)), -1: compare.OPERATION}
    serials = {
        side: [change.serial for _, change in changes(log, table)]
        for side, log in (("reference", one), ("other", other))
    }

    def serial(row: SparkRow) -> int:
        side = "other" if row["reference"] is None else "reference"
        return serials[side][int(row[side]["change_id"].split("-")[1])]

    return counts, sorted(
        Found(bytes(row["place"]), row["verdict"], tuple(names[n] for n in row["columns"] or ()), serial(row))
        for row in looked
        if row["verdict"] in compare.FAULTS
    )


def effects(told_changes: Iterable[tuple[Transaction, Change]], table: Table) -> list[tuple[bytes, int]]:
    """Place and change of each effect: one for each key, but for a delete that an insert follows."""
    told: dict[tuple[bytes, Any], list[tuple[str, int]]] = {}
    for transaction, change in told_changes:
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
            if step == "i" and at and at[-1][0] == "d":
                at[-1] = "u", change.serial
            else:
                at.append((step, change.serial))
    return sorted((place, serial) for (place, _), steps in told.items() for _, serial in steps)


def _all(log: Log) -> list[tuple[Transaction, Change]]:
    return [(transaction, change) for transaction in log.transactions for change in transaction.changes]


def test_feeds_that_tell_the_same_are_equal(spark: SparkSession) -> None:
    log = joined([apart(simulate(seed, 25), seed) for seed in SEEDS])
    for table in log.tables[:3]:
        counts, found = verdicts(spark, log, log, table)
        assert found == []
        assert counts == Counter(equal=len(effects(_all(log), table)))


def test_a_first_look_sees_each_cell_that_is_not_alike(spark: SparkSession) -> None:
    log = simulate(3, 25)
    table = log.table("dbo.customers")
    contract = contract_of(table)
    columns = Columns.of(contract, contract)
    told = ledger(spark, log, table).where("operation = 'insert'").persist()
    one = Side(told, contract)

    def unlike(other: DataFrame) -> int:
        return first_look(one, Side(other, contract), columns).where("NOT alike").count()

    inserts = told.count()
    assert inserts > 5
    assert unlike(told) == 0
    for name in table.names:
        known = told.where(f"after.`{name}` IS NOT NULL").count()
        without = told.withColumn("after", F.col("after").withField(name, F.lit(None)))
        assert unlike(without) == known, name
        # NULL is not the same as unknown.
        unknown = without.withColumn("after_gaps", F.create_map(F.lit(name), F.lit("unavailable")))
        assert unlike(unknown) == inserts, name
    assert unlike(told.withColumn("operation", F.lit("update"))) == inserts
    assert unlike(told.limit(inserts - 2)) == 2
    assert unlike(told.unionByName(told.limit(1))) == 1
    told.unpersist()


def test_what_tools_tell_in_their_own_way_is_legitimate(spark: SparkSession) -> None:
    log = simulate(4, 40)
    table = log.table("sales.orders")
    everything = len(effects(_all(log), table))
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


# What a fault is found as.
VERDICT = {"lost": "missing", "changed": "differs", "doubled": "extra", "swapped": "order"}


@pytest.mark.parametrize("kinds", [*([kind] for kind in VERDICT), list(VERDICT)], ids="-".join)
def test_every_fault_is_found_where_it_is_and_nothing_else(spark: SparkSession, kinds: list[str]) -> None:
    """One by one and all together, in the logs of many seeds."""
    logs = [apart(simulate(seed, 25), seed) for seed in SEEDS]
    spoilt = [_with_faults(log, kinds, Random(seed)) for seed, log in zip(SEEDS, logs, strict=True)]
    one, other = joined(logs), joined([told for told, _ in spoilt])
    injected = [fault for _, found in spoilt for fault in found]
    assert Counter(fault.kind for fault in injected) == dict.fromkeys(kinds, len(SEEDS))
    # The widest table is left out: it costs more than the others together.
    for table in one.tables[:3]:
        expected = [
            Found(place, VERDICT[fault.kind], (fault.column,) if fault.column else (), serial)
            for fault in injected
            for place, serial in effects(fault.changes, table)
        ]
        _, found = verdicts(spark, one, other, table)
        assert found == sorted(expected), table.name
        if kinds == ["lost"]:
            # The other way round the same changes are more than the reference has.
            _, found = verdicts(spark, other, one, table)
            assert found == sorted(fault._replace(verdict="extra") for fault in expected)


def _with_faults(log: Log, kinds: Sequence[str], rng: Random) -> tuple[Log, list[Fault]]:
    """The log with a fault of each kind, no two of which touch the same key or the same transactions."""
    free = {n: faults.keys_of(t) for n, t in enumerate(log.transactions) if n}
    injected = []
    # A transaction that is lost moves the numbers of those behind it.
    for kind in sorted(kinds, key=["changed", "doubled", "swapped", "lost"].index):
        numbers = [n for n in free if _fits(log, n, kind) and (kind != "swapped" or n + 1 in free)]
        number = rng.choice(numbers)
        touched = free.pop(number) | (free.pop(number + 1) if kind == "swapped" else set())
        free = {n: keys for n, keys in free.items() if not keys & touched}
        log, fault = _INJECT[kind](log, number, rng)
        injected.append(fault)
    return log, injected


_INJECT: dict[str, Callable[[Log, int, Random], tuple[Log, Fault]]] = {
    "lost": lambda log, number, _: faults.lose(log, number),
    "changed": faults.change_value,
    "doubled": faults.double,
    "swapped": lambda log, number, _: faults.swap(log, number),
}


def _fits(log: Log, number: int, kind: str) -> bool:
    """Can the transaction have such a fault, and is it plain then what must be found?"""
    told = log.transactions[number].changes
    if kind == "changed":
        # Every row that it leaves has a column whose value every tool tells.
        kept = [c.table.free_columns for c in told if c.after is not None]
        valued = {"int", "decimal", "date", "bigint"}
        return bool(kept) and all(any(c.base in valued for c in columns) for columns in kept)
    if kind == "doubled":
        keys = Counter(
            (c.table.name, c.table.key_of(row)) for c in told for row in (c.before or c.after,) if row
        )
        return max(keys.values()) == 1 and any(c.operation in {"insert", "update"} for c in told)
    if kind == "swapped":
        following = log.transactions[number + 1 : number + 2]
        return all(not faults.keys_of(log.transactions[number]) & faults.keys_of(t) for t in following)
    return True
