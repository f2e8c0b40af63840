"""Snapshot summaries give a table's row count, whatever was deleted, updated and compacted before."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from changeledger.lake import iceberg, refs, summaries, upkeep

TABLE, BRANCH = "lake.summaries.t", "run_1"


def rows(spark: SparkSession, first: int, end: int) -> DataFrame:
    return spark.range(first, end).selectExpr("cast(id AS int) id", "'x' what")


def agrees(spark: SparkSession) -> summaries.BuiltTable:
    """Asserts that the summaries of main and of the branch agree with a count."""
    now = refs.heads([TABLE], BRANCH)[TABLE]
    said = summaries.built({TABLE: now})[TABLE]
    assert said.now == iceberg.read(spark, TABLE, snapshot=now).count()
    if said.is_published:
        assert said.before == iceberg.read(spark, TABLE).count()
    return said


def begin(spark: SparkSession) -> None:
    iceberg.fresh_branch(spark, TABLE, BRANCH)


def publish(spark: SparkSession) -> None:
    now = refs.heads([TABLE], BRANCH)[TABLE]
    refs.set_tag(TABLE, "t", now)
    refs.forward(TABLE, now)


def test_snapshots_say_how_many_rows_a_table_has(spark: SparkSession, table: str) -> None:
    begin(spark)
    assert not agrees(spark).is_published
    iceberg.append(rows(spark, 0, 100), table, BRANCH)
    assert agrees(spark).now == 100
    publish(spark)
    assert not agrees(spark).is_new
    for window in range(1, 4):
        begin(spark)
        if window == 2:
            # Adding a column rewrites all rows (`stages.branches`).
            iceberg.update(spark, table, BRANCH, {"what": "'y'"})
            agrees(spark)
        iceberg.append(rows(spark, window * 100, window * 100 + 50), table, BRANCH)
        iceberg.delete(rows(spark, window * 10, window * 10 + 5), table, BRANCH, "t.id = s.id")
        # Deletes rows that this run itself has written.
        iceberg.delete(rows(spark, window * 100, window * 100 + 1), table, BRANCH, "t.id = s.id")
        said = agrees(spark)
        assert said.is_new
        assert said.now == (said.before or 0) + 50 - 5 - 1
        publish(spark)
        if window == 2:
            upkeep.compact(spark, table)
            begin(spark)
            assert not agrees(spark).is_new


def test_a_file_that_went_as_a_whole_counts_on_both_sides(spark: SparkSession, table: str) -> None:
    """Positions deleted in it still count, so both row counts, before and after a run, are too low."""
    begin(spark)
    iceberg.append(rows(spark, 0, 100), table, BRANCH)
    iceberg.append(rows(spark, 100, 150), table, BRANCH)
    iceberg.delete(rows(spark, 100, 103), table, BRANCH, "t.id = s.id")
    publish(spark)
    begin(spark)
    spark.sql(f"DELETE FROM {iceberg.on_branch(table, BRANCH)} WHERE id >= 100")
    lost = difference(spark)
    assert lost is not None
    assert lost < 0, "a run that loses rows so is found"
    publish(spark)
    begin(spark)
    iceberg.append(rows(spark, 200, 210), table, BRANCH)
    iceberg.delete(rows(spark, 0, 2), table, BRANCH, "t.id = s.id")
    assert difference(spark) == 10 - 2


def difference(spark: SparkSession) -> int | None:
    said = summaries.built(refs.heads([TABLE], BRANCH))[TABLE]
    assert said.is_published
    return None if said.now is None or said.before is None else said.now - said.before
