"""The ledgers of a database's feeds, as a comparison reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from changeledger.config.feed import Feed
from changeledger.lake import catalog, iceberg, refs
from changeledger.lake.parallel import parallel_map
from changeledger.model import change
from changeledger.spark.rows import Workers
from changeledger.stages.common.stored import Stored


def ledgers(spark: SparkSession, workers: Workers, feeds: Sequence[Feed]) -> dict[str, dict[str, Stored]]:
    """What the tools have captured: by feed and table, in lower case, the ledgers that are there."""

    def of_feed(feed: Feed) -> dict[str, Stored]:
        return {table: _captured(spark, workers, name) for table, name in _names(feed).items()}

    return dict(zip((f.feed for f in feeds), parallel_map(of_feed, feeds), strict=True))


def _names(feed: Feed) -> dict[str, str]:
    names = feed.names
    tables = set(catalog.tables(feed.namespace))
    return {table.lower(): own.changes for table, own in names.items() if own.changes in tables}


def _captured(spark: SparkSession, workers: Workers, ledger: str) -> Stored:
    """All but repairs."""
    stored = Stored.of(workers, ledger, iceberg.read(spark, ledger), refs.MAIN)
    return replace(stored, only=(_no_repairs, "flags"))


def _no_repairs(rows: pa.RecordBatch) -> pa.RecordBatch:
    flags = rows.column("flags")
    # Of a list the parents of what is in it are the rows.
    at = pc.list_parent_indices(flags).filter(pc.equal(pc.list_flatten(flags), change.REPAIRED))
    stays = np.ones(len(rows), np.bool_)
    stays[at.to_numpy()] = False
    return rows.filter(pa.array(stays))
