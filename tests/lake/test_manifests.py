"""Manifests have the least and greatest values of current files, not of removed ones."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from changeledger.kernels.arrow import table_schema
from changeledger.lake import catalog, new_tables, upkeep

pytestmark = pytest.mark.integration
SIZE = "commit.manifest.target-size-bytes"


def removed(spark: SparkSession, table: str) -> list[int]:
    """Returns, for each manifest of main, the number of removed files that it names."""
    return [row["deleted_data_files_count"] for row in spark.table(f"{table}.manifests").collect()]


def test_of_one_manifest_of_several_and_of_a_table_without_rows(spark: SparkSession) -> None:
    table = "lake.manifests.people"
    new_tables.create(table, table_schema((("id", "int"), ("name", "string"))))
    for number in (1, 2, 3):
        spark.sql(f"INSERT INTO {table} VALUES ({number}, 'N{number}')")
    for gone, manifests in ((1, 3), (2, 1), (3, 2)):
        spark.sql(f"DELETE FROM {table} WHERE id = {gone}")
        assert 1 in removed(spark, table), manifests
        upkeep.forget_removed_files(spark, table)
        assert not any(removed(spark, table))
        assert spark.table(table).count() == 3 - gone
    assert SIZE not in catalog.load(table).properties


def test_what_a_killed_process_has_set(spark: SparkSession) -> None:
    """Killed after the rewrite, it has nothing left to write; killed before it, more than one manifest."""
    table = "lake.manifests.killed"
    new_tables.create(table, table_schema((("id", "int"),)))
    for number in (1, 2):
        spark.sql(f"INSERT INTO {table} VALUES ({number})")
    for is_removed in (False, True):
        if is_removed:
            spark.sql(f"DELETE FROM {table} WHERE id = 1")
        spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('{SIZE}' = '10')")
        upkeep.forget_removed_files(spark, table)
        assert SIZE not in catalog.load(table).properties
    assert removed(spark, table) == [0]
