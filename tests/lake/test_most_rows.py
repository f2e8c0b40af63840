"""How many rows of a history a truncate ends, at most: what is known of the files is enough."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.expressions import And, Or
from pyspark.sql import SparkSession

from changeledger.config.settings import Settings
from changeledger.lake import catalog, iceberg, refs, scans

TABLE = "lake.most_rows.history"
COLUMNS = (("_sort_key", "binary"), ("_next_sort_key", "binary"), ("_valid_to", "timestamp"))


@pytest.mark.parametrize(("at", "most"), [(0, 0), (2, 3), (4, 6), (9, 5)])
def test_files_that_may_hold_some_are_counted_and_not_read(spark: SparkSession, at: int, most: int) -> None:
    """3 open intervals from 1 on, 1 closed one of 2 to 5, 2 open ones from 3 on."""
    catalog.create_namespace("most_rows")
    spark.sql(f"DROP TABLE IF EXISTS {TABLE}")
    iceberg.create(spark, TABLE, COLUMNS, ("bucket(1, _valid_to)",))
    for begin, end, rows in ((1, None, 3), (2, 5, 1), (3, None, 2)):
        ended = "NULL" if end is None else f"X'0{end}'"
        frame = spark.sql(
            f"SELECT X'0{begin}' _sort_key, CAST({ended} AS binary) _next_sort_key, "
            f"{'NULL' if end is None else 'current_timestamp()'} _valid_to FROM range({rows})"
        )
        iceberg.append(frame.coalesce(1), TABLE)
    for file in (Path(Settings().warehouse.removeprefix("file:")) / "most_rows").rglob("*.parquet"):
        file.unlink()
    emptied = bytes([at])
    is_there = Or(scans.is_null("_valid_to"), scans.is_behind("_next_sort_key", emptied))
    where = And(scans.is_before("_sort_key", emptied), is_there)
    snapshot = refs.snapshot_of(TABLE)
    assert snapshot is not None
    assert scans.most_rows(TABLE, where, snapshot) == most
