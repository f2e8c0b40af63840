"""The ledgers of a database's feeds, as a comparison reads them."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from changeledger.compare import effects, findings, log
from changeledger.config.feed import Feed
from changeledger.lake import catalog, iceberg
from changeledger.model import change
from changeledger.stages.common.stored import Stored, stored, weights

# What a comparison reads of a ledger.
NEEDED = tuple(dict.fromkeys((*effects.NEEDED, *log.NEEDED, *findings.NEEDED)))


def ledgers(spark: SparkSession, feeds: Sequence[Feed]) -> dict[str, dict[str, Stored]]:
    """What the tools have captured: by feed and table, in lower case, the ledgers that are there."""
    names = dict(zip((f.feed for f in feeds), map(_names, feeds), strict=True))
    weight = weights([name for of_feed in names.values() for name in of_feed.values()])

    def of_feed(feed: str) -> dict[str, Stored]:
        frames = {table: _captured(spark, name) for table, name in names[feed].items()}
        return stored(frames, {table: weight[name] for table, name in names[feed].items()})

    return dict(zip(names, iceberg.parallel_map(of_feed, names), strict=True))


def _names(feed: Feed) -> dict[str, str]:
    names = feed.names
    there = set(catalog.tables(feed.namespace))
    return {table.lower(): own.changes for table, own in names.items() if own.changes in there}


def _captured(spark: SparkSession, ledger: str) -> DataFrame:
    """All but repairs."""
    is_repair = F.coalesce(F.array_contains("flags", change.REPAIRED), F.lit(False))
    return iceberg.read(spark, ledger).where(~is_repair).select(*NEEDED)
