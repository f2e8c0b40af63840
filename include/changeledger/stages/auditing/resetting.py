"""Compares the tables that a reset run has built from nothing with the published ones."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from changeledger.audit.resetting import Replaced, reset_rules
from changeledger.audit.rules import Rule
from changeledger.lake import iceberg, refs
from changeledger.model.change import REPAIRED, quoted
from changeledger.model.contract import Contract
from changeledger.pages.redaction import REDACTED
from changeledger.stages.common.context import StageContext

# Keys named as examples.
_EXAMPLES = 3


def rules_of(ctx: StageContext) -> list[Rule]:
    """Returns the rules of a run that starts over; an empty list for any other run."""
    if ctx.reset is None:
        return []
    names, contracts = ctx.names, ctx.contracts().values()
    published = [c for c in contracts if refs.heads(names[c.table], refs.MAIN).keys() == {*names[c.table]}]
    return reset_rules([_replaced(ctx, c) for c in published], accepts_gap=ctx.reset.accept_gap)


def _replaced(ctx: StageContext, contract: Contract) -> Replaced:
    names = ctx.names[contract.table]
    key = F.struct(*(F.col(quoted(column.name)) for column in contract.key)).alias("key")
    unknown = F.coalesce(F.map_keys("_unknown_columns"), F.array()).alias("unknown")
    published = iceberg.read(ctx.spark, names.current).select(key, unknown, "_sort_key")
    rows = ctx.built(names.current).select(key, unknown.alias("unknown_now"))
    history = ctx.built(names.history).select(key, "_is_deleted", "_sort_key")
    gone = published.join(history.select("key").distinct(), "key", "left_anti").select("key")
    less_known = keys_less_known(published, rows, history)
    changes, unread, repairs = _changes(ctx, names.changes)
    counts = published.count(), gone.count(), less_known.count()
    keys = gone.union(less_known).select(F.to_json("key").alias("key")).limit(_EXAMPLES).collect()
    examples = [REDACTED if ctx.settings.redact_values else row["key"] for row in keys]
    return Replaced(contract.table, changes, unread, repairs, *counts, examples)


def keys_less_known(published: DataFrame, rows: DataFrame, history: DataFrame) -> DataFrame:
    """Returns the keys of rows in which a column was known and now is not.

    A row that was deleted and inserted again since is a new row: what it lacks is not lost.
    """
    less = published.join(rows, "key").where(F.size(F.array_except("unknown_now", "unknown")) > 0)
    ended = history.where("_is_deleted").select("key", F.col("_sort_key").alias("ended"))
    came_again = less.join(ended, "key").where("ended > _sort_key").select("key")
    return less.select("key").join(came_again, "key", "left_anti")


def _changes(ctx: StageContext, ledger: str) -> tuple[int, int, int]:
    """Counts the published changes, those that the run has not read, and the repairs among the latter."""
    built = ctx.built(ledger)
    halves = built.where("paired_change_id IS NOT NULL").selectExpr("paired_change_id AS change_id")
    published = iceberg.read(ctx.spark, ledger)
    unread = published.join(built.select("change_id").union(halves), "change_id", "left_anti")
    is_repair = F.coalesce(F.array_contains("flags", REPAIRED), F.lit(col=False))
    return published.count(), unread.count(), unread.where(is_repair).count()
