"""A window's rows replace those in raw. Twice is as good as once; of two at once, one is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from changeledger.kernels.arrow import table_schema
from changeledger.lake import iceberg, new_tables, refs, writes
from changeledger.model import change
from changeledger.model.errors import ConfigError, SourceUnavailable
from changeledger.spark import failures
from changeledger.spark.rows import Workers

TABLE = "lake.replacing.raw"
COLUMNS = (("window_id", "string"), ("offset", "bigint"))
SCHEMA = pa.schema([("window_id", pa.string()), ("offset", pa.int64())])
# Writes the offsets of a window, with the snapshot of main that was read before.
Write = Callable[[str, Sequence[int], int | None], None]


@pytest.fixture
def write(spark: SparkSession) -> Write:
    spark.sql(f"DROP TABLE IF EXISTS {TABLE}")
    new_tables.create(TABLE, table_schema(COLUMNS), change.BY_WINDOW)

    def written(window: str, offsets: Sequence[int], since: int | None) -> None:
        table = pa.table([[window] * len(offsets), list(offsets)], schema=SCHEMA)
        writes.replace_window(Workers(lambda: spark).given(table), TABLE, window, since)

    return written


def stands(spark: SparkSession) -> list[Any]:
    return sorted((row["window_id"], row["offset"]) for row in spark.table(TABLE).collect())


def test_twice_is_once(spark: SparkSession, write: Write) -> None:
    write("1", [1, 2], None)
    write("2", [3], refs.snapshot_of(TABLE))
    write("1", [1, 2, 4], refs.snapshot_of(TABLE))
    assert stands(spark) == [("1", 1), ("1", 2), ("1", 4), ("2", 3)]


@pytest.mark.parametrize("is_first", [True, False])
def test_what_came_since_is_not_replaced(spark: SparkSession, write: Write, is_first: bool) -> None:
    if not is_first:
        write("0", [0], None)
    since = refs.snapshot_of(TABLE)
    write("1", [1, 2], since)
    before = stands(spark)
    with pytest.raises(SourceUnavailable):
        write("1", [1, 2], since)
    assert stands(spark) == before


def test_a_file_with_rows_of_two_windows_stays(spark: SparkSession) -> None:
    """Replacing one window would remove the other one's rows. It is refused even if Python omits asserts."""
    new_tables.create("lake.replacing.mixed", table_schema(COLUMNS))
    rows = spark.createDataFrame([("1", 1), ("2", 2)], "window_id string, offset long")
    iceberg.append(rows.coalesce(1), "lake.replacing.mixed")
    before = refs.snapshot_of("lake.replacing.mixed")
    new = Workers(lambda: spark).given(pa.table([["1"], [9]], schema=SCHEMA))
    with pytest.raises(ConfigError, match="has files with rows of several windows"):
        writes.replace_window(new, "lake.replacing.mixed", "1", before)
    assert refs.snapshot_of("lake.replacing.mixed") == before


def test_rows_go_into_no_partition_that_is_not_known(spark: SparkSession) -> None:
    new_tables.create("lake.replacing.bucketed", table_schema(COLUMNS), {"offset": "bucket[4]"})
    new = Workers(lambda: spark).given(pa.table([["1"], [9]], schema=SCHEMA))
    with pytest.raises(ConfigError, match="which changeledger never does"), failures.named():
        writes.append(new, "lake.replacing.bucketed", "main")
