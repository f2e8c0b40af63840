"""Two feeds of one log, change by change: every fault is found where it is, and nothing else."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import NamedTuple

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import Row as SparkRow
from pyspark.sql import functions as F
from tests.injected import VERDICT, effects, with_faults
from tests.ledgers import PLAIN, Manner, apart, changes, contract_of, joined, ledger

from changeledger.reconcile import compare
from changeledger.reconcile.compare import Columns, Side
from changeledger.reconcile.first_look import first_look
from changeledger.reconcile.second_look import second_look
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


@pytest.mark.parametrize("kinds", [*([kind] for kind in VERDICT), list(VERDICT)], ids="-".join)
def test_every_fault_is_found_where_it_is_and_nothing_else(spark: SparkSession, kinds: list[str]) -> None:
    """One by one and all together, in the logs of many seeds."""
    logs = [apart(simulate(seed, 25), seed) for seed in SEEDS]
    spoilt = [with_faults(log, kinds, Random(seed)) for seed, log in zip(SEEDS, logs, strict=True)]
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
