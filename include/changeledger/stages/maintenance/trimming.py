"""Maintenance removes comparisons, proofs and repairs that newer ones have taken the place of."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pyspark.sql import SparkSession

from changeledger.config.feed import Feed
from changeledger.control import ControlStore
from changeledger.lake import catalog, iceberg, upkeep
from changeledger.model.change import literal
from changeledger.model.table_names import DRIFT, FINDINGS, REPAIRS
from changeledger.stages.common.context import log

# A statement has so many names.
_AT_ONCE = 500


def trim_results(spark: SparkSession, feed: Feed, control: ControlStore, before: datetime) -> None:
    """Comparisons, proofs and snapshots that are older: the last ones of each table stay."""
    old = control.upkeep.superseded(feed.database, feed.feed, before)
    results = (
        (FINDINGS, "comparison_id", old.comparisons),
        (DRIFT, "proof_id", old.proofs),
        (REPAIRS, "proof_id", old.proofs),
    )
    for table, column, ids in results:
        if catalog.exists(table):
            _drop(spark, table, column, ids)
            iceberg.expire(spark, table, before)
    control.upkeep.forget_results(old)
    log.info("%s: %d old comparisons and %d proofs removed", feed.feed, len(old.comparisons), len(old.proofs))


def trim_repairs(spark: SparkSession, feed: Feed, windows: Sequence[str]) -> None:
    """The plans that these runs have applied: their changes are in the ledger."""
    table = feed.lake.applied_repairs
    if catalog.exists(table):
        _drop(spark, table, "window_id", windows)


def _drop(spark: SparkSession, table: str, column: str, ids: Sequence[str]) -> None:
    """Rows of whole partitions."""
    for first in range(0, len(ids), _AT_ONCE):
        names = ", ".join(map(literal, ids[first : first + _AT_ONCE]))
        upkeep.delete_where(spark, table, f"{column} IN ({names})")
