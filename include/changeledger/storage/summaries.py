"""What Iceberg's snapshots say of themselves: how many rows a table has, without reading one.

Where a file has gone as a whole, positions deleted in it may still count. Compare only snapshots of which one
was built on the other: what stands before both counts in both.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F


class Rows(NamedTuple):
    """Of one snapshot. `written`: rows in its data files; `live`: those that are not deleted.

    None where the snapshot does not say it.
    """

    written: int | None
    live: int | None


class Built(NamedTuple):
    """A snapshot that a run has built, beside main. `main` is None where main has none."""

    is_new: bool
    main: Rows | None
    now: Rows

    @property
    def added(self) -> int:
        """How many rows the run has written, about."""
        before = 0 if self.main is None else self.main.written
        return max(0, (self.now.written or 0) - (before or 0))


_UNKNOWN = Rows(None, None)


def built(spark: SparkSession, snapshots: Mapping[str, int]) -> dict[str, Built]:
    """By table. One query for all."""
    if not snapshots:
        return {}
    found = reduce(DataFrame.union, [_of_table(spark, table) for table in snapshots]).collect()
    mains = {row["table"]: row["snapshot_id"] for row in found if row["is_main"]}
    rows = {
        (row["table"], row["snapshot_id"]): _rows(row["records"], row["deleted"], row["equalities"])
        for row in found
        if not row["is_main"]
    }
    return {
        table: Built(
            mains.get(table) != snapshot,
            rows.get((table, mains[table]), _UNKNOWN) if table in mains else None,
            rows.get((table, snapshot), _UNKNOWN),
        )
        for table, snapshot in snapshots.items()
    }


def _of_table(spark: SparkSession, table: str) -> DataFrame:
    named = F.lit(table).alias("table")
    totals = spark.table(f"{table}.snapshots").select(
        named,
        "snapshot_id",
        F.lit(False).alias("is_main"),
        _total("records"),
        _total("position-deletes").alias("deleted"),
        _total("equality-deletes").alias("equalities"),
    )
    none = F.lit(None).cast("bigint")
    main = spark.table(f"{table}.refs").where(F.col("name") == "main")
    return totals.union(main.select(named, "snapshot_id", F.lit(True), none, none, none))


def _total(what: str) -> Column:
    return F.try_element_at("summary", F.lit(f"total-{what}")).cast("bigint").alias(what)


def _rows(written: int | None, deleted: int | None, equalities: int | None) -> Rows:
    """A position is deleted once; how many rows an equality deletes, no snapshot says."""
    known = written is not None and deleted is not None and equalities == 0
    return Rows(written, written - deleted if known else None)  # type: ignore[operator]
