"""Iceberg is not called when it has nothing to do: it would list all files of a table to find that out."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import cast

import pytest
from pyspark.sql import SparkSession

from changeledger.lake import catalog, refs, summaries, upkeep

pytestmark = pytest.mark.integration

TABLE = "lake.expiring.t"
# Any use of the session fails.
NOT_ASKED = cast(SparkSession, None)


def snapshots() -> int:
    return len(catalog.load(TABLE).metadata.snapshots)


def test_only_where_a_snapshot_is_older_and_no_ref_names_it(spark: SparkSession, table: str) -> None:
    begun = datetime.now(UTC)
    upkeep.expire(NOT_ASKED, table, datetime.now(UTC))
    spark.sql(f"INSERT INTO {table} VALUES (1, 'a')")
    first = refs.snapshot_of(table)
    assert first is not None
    upkeep.expire(NOT_ASKED, table, datetime.now(UTC))
    refs.set_tag(table, "release_1", first)
    spark.sql(f"INSERT INTO {table} VALUES (2, 'b')")
    upkeep.expire(NOT_ASKED, table, datetime.now(UTC))
    refs.drop(table, ["release_1"])
    upkeep.expire(NOT_ASKED, table, begun)
    assert snapshots() == 2
    upkeep.expire(spark, table, datetime.now(UTC))
    assert snapshots() == 1
    assert spark.table(table).count() == 2


def test_whether_files_have_rows_that_are_deleted(spark: SparkSession, table: str) -> None:
    assert not summaries.has_deleted_rows(table)
    spark.sql(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    spark.sql(f"INSERT INTO {table} VALUES (4, 'd')")
    spark.sql(f"DELETE FROM {table} WHERE id = 4")
    assert not summaries.has_deleted_rows(table), "the file has gone as a whole"
    spark.sql(f"DELETE FROM {table} WHERE id = 2")
    assert summaries.has_deleted_rows(table)
    spark.sql(f"INSERT INTO {table} VALUES (5, 'e')")
    assert summaries.has_deleted_rows(table)
    upkeep.compact(spark, table)
    assert not summaries.has_deleted_rows(table)
    assert sorted(row["id"] for row in spark.table(table).collect()) == [1, 3, 5]
