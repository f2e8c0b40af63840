"""Spark's workers give the same rows as a single process, however buckets and tasks are cut."""

from __future__ import annotations

import pickle
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from changeledger.kernels.hashed import by
from changeledger.kernels.rows import Part, bucketed, count, together
from changeledger.kernels.touched import HASHES, Among, HashesOf, known
from changeledger.lake import leaving
from changeledger.spark import dealing
from changeledger.spark import rows as carried
from changeledger.spark.readings import Given, in_tasks
from changeledger.spark.rows import Workers

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
SUMS = pa.schema([("id", pa.int64()), ("n", pa.int64())])


def table(rows: int) -> pa.Table:
    return pa.table([list(range(rows)), [None if at % 3 else f"n{at}" for at in range(rows)]], schema=SCHEMA)


def named(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.filter(rows.column("name").is_valid())


def doubled(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.set_column(0, SCHEMA.field(0), pc.multiply(rows.column(0), 2))


def summed(tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    both = pa.concat_tables([part.select(["id"]) for part in tables.values()])
    return {
        "sums": both.group_by("id").aggregate([([], "count_all")]).rename_columns(SUMS.names),
        "none": SUMS.empty_table(),
    }


def test_kernels_and_origins(spark: SparkSession) -> None:
    with Workers(lambda: spark) as workers:
        given = workers.given(table(20))
        from_spark = workers.of_spark(spark.createDataFrame(table(5)), 5, SCHEMA)
        both = together([given.through(named, SCHEMA), from_spark.through(doubled, SCHEMA)])
        assert sorted(both.collected().column("id").to_pylist()) == [
            0, 0, 2, 3, 4, 6, 6, 8, 9, 12, 15, 18,
        ]  # fmt: skip
        assert [count(rows) for rows in (both, given, workers.nothing(SCHEMA))] == [12, 20, 0]
        assert len(given.collected(7)) == 7
        assert carried.as_spark(both).frame.count() == 12


def test_given_rows_travel_once() -> None:
    """A Spark Connect server accepts 128 MB per message, so 200,000 keys are not sent five times."""
    rows = table(200_000)
    given = Given(rows.combine_chunks())
    assert [part.num_rows for part in given.parts] == given.weights == [50_000] * 4
    sizes = [len(pickle.dumps(sent)) for sent in (*given.parts, given.without_parts())]
    assert sum(sizes) < 1.01 * rows.nbytes
    assert pa.Table.from_batches([pickle.loads(pickle.dumps(part)) for part in given.parts]) == rows
    assert given.without_parts().schema == SCHEMA


def test_what_several_kernels_have_travels_once() -> None:
    """For example, a window's keys, which the kernels of all rewritten files share."""
    keys = pa.table({"id": pa.array(range(200_000))})
    kernels = [leaving.Stays(keys, known(keys.rename_columns(["hash"])), None)] * 8
    pickles = carried._each_pickled((number, kernel) for number, kernel in enumerate(kernels))
    assert sum(map(len, (*pickles.each, *pickles.shared))) < 2.1 * keys.nbytes
    for number in range(8):
        came, kernel = pickle.loads(pickle.dumps(pickles)).value(number)
        assert (came, kernel.keys, kernel.ends) == (number, keys, None)
        assert (kernel.hashes == kernels[0].hashes).all()


@pytest.mark.parametrize("size", [5, 50_000])
def test_rows_of_one_key_are_in_one_bucket(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(dealing, "BUCKET", size)
    with Workers(lambda: spark) as workers:

        def work(extra: int) -> list[tuple[int, int]]:
            parts = {
                "one": Part(workers.given(table(20)), by("id")),
                "other": Part(workers.given(table(extra)), by("id")),
            }
            outputs = bucketed(parts, summed, {"sums": SUMS, "none": SUMS})
            assert count(outputs["none"]) == 0
            rows = outputs["sums"].collected()
            return sorted(zip(rows.column("id").to_pylist(), rows.column("n").to_pylist(), strict=True))

        assert workers.each(work, [0, 3]) == [
            [(at, 1) for at in range(20)],
            [(at, 2 if at < 3 else 1) for at in range(20)],
        ]


def test_a_kernel_that_several_begin_with_runs_once(spark: SparkSession) -> None:
    calls = spark.sparkContext.accumulator(0)

    def noted(rows: pa.RecordBatch) -> pa.RecordBatch:
        calls.add(1)
        return rows

    with Workers(lambda: spark) as workers:
        first = workers.given(table(9)).through(noted, SCHEMA)
        both = [first.through(doubled, SCHEMA), first]
        tables = first.through(named, SCHEMA).collected_with(both)
        assert [len(rows) for rows in tables] == [3, 9, 9]
    assert calls.value == 1


def test_rows_picked_by_keys_get_no_buckets_of_their_own(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dealing, "BUCKET", 5)
    with Workers(lambda: spark) as workers:
        many, few = workers.given(table(1000)), workers.given(table(10))
        among = Among(by("id"), known(few.through(HashesOf(by("id")), HASHES).collected()))
        parts = {"one": Part(many.through(among, SCHEMA), by("id")), "other": Part(few, by("id"))}
        sums = bucketed(parts, summed, {"sums": SUMS})["sums"]
        assert carried.as_spark(sums).frame.rdd.getNumPartitions() == 2
        assert sums.collected().column("n").to_pylist() == [2] * 10


@pytest.mark.parametrize("tables", [1, 7])
def test_steps_have_buckets_for_the_rows_of_all_tables_once(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tables: int
) -> None:
    """The first step reads 100 rows, shared by all tables.

    The second reads their numbers, ten of which weigh as much as a row.
    """
    monkeypatch.setattr(dealing, "BUCKET", 5)
    with Workers(lambda: spark) as workers:
        topic = workers.given(table(100))

        def work(_: int) -> int:
            first = bucketed({"one": Part(topic, by("id"))}, summed, {"sums": SUMS})["sums"]
            second = bucketed({"one": Part(first, by("id"))}, summed, {"sums": SUMS})["sums"]
            assert len(second.collected()) == 100
            return carried.as_spark(second).frame.rdd.getNumPartitions()

        assert workers.each(work, range(tables)) == [2] * tables


def test_small_parts_share_tasks_and_large_ones_do_not() -> None:
    small = [Given(table(10)) for _ in range(6)]
    (task,) = in_tasks(small)
    assert sorted(reading.number for reading in task) == list(range(6))
    several = in_tasks([Given(table(120_000)), *small])
    # Three parts of up to 50,000 rows for several cores, beside the small parts.
    assert len(several) == 6
    assert max(sum(reading.part.num_rows for reading in task) for task in several) <= 50_000
    many = in_tasks([Given(table(50_000))] * 60)
    assert {sum(reading.part.num_rows for reading in task) for task in many} <= {100_000, 150_000}
    assert in_tasks([]) == ()


def test_without_rows_spark_is_not_started() -> None:
    def session() -> SparkSession:
        raise AssertionError("started")

    with Workers(session) as workers:
        nothing = workers.nothing(SCHEMA)
        parts = {"one": Part(nothing, by("id")), "other": Part(nothing.through(named, SCHEMA), by("id"))}
        outputs = bucketed(parts, summed, {"sums": SUMS})
        assert len(outputs["sums"].collected()) == 0
        assert count(together([nothing, outputs["sums"].through(doubled, SUMS)])) == 0
