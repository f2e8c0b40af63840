"""The list of quarantined records that the feed's next run reads again."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from changeledger.config.feed import Feed
from changeledger.kernels.arrow import table_schema
from changeledger.lake import catalog, iceberg, new_tables
from changeledger.model import change
from changeledger.model.errors import ConfigError
from changeledger.stages.common.context import StageContext, log


def ask(spark: SparkSession, feed: Feed, rows: DataFrame) -> int:
    """Puts `window_id` and `source_position` of `rows` on the list. Returns how many are new on it.

    The caller must hold the feed's lease, since every run reads the list.
    """
    listed = feed.lake.replay_requests
    new_tables.create(listed, table_schema(change.REPLAY_COLUMNS))
    asked = rows.select(*(name for name, _ in change.REPLAY_COLUMNS)).distinct()
    fresh = asked.join(iceberg.read(spark, listed), ["window_id", "source_position"], "left_anti")
    count = fresh.count()
    if count:
        iceberg.append(fresh, listed)
    return count


def ask_for_all(ctx: StageContext) -> None:
    """Puts all quarantined records on the list, or those of the request's tables if it names some.

    Raises ConfigError if nothing was published yet.
    """
    if ctx.control.windows.position(ctx.feed.feed) is None or not catalog.exists(ctx.lake.quarantine):
        raise ConfigError(
            f"the feed {ctx.feed.feed!r} has published nothing yet", "run it without `replay` first"
        )
    rows = iceberg.read(ctx.spark, ctx.lake.quarantine)
    if ctx.window.request.tables:
        tables = [t.table for t in ctx.whole.only(ctx.window.request.tables).tables]
        rows = rows.where(F.col("table").isin(tables))
    log.info("%s: %d quarantined records are read again", ctx.feed.feed, ask(ctx.spark, ctx.feed, rows))
