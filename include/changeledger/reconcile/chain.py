"""The image chain: each change finds its row as the change before it left it. A break is where it does not.

What no tool can be blamed for is no break: cells that one of the two does not know, the same value in
another form (`forms`), the first change of a key that anything is known of, and whatever a snapshot finds.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, WindowSpec
from pyspark.sql import functions as F

from changeledger import change, images
from changeledger.change import literal, quoted
from changeledger.contract import Contract
from changeledger.reconcile.findings import texts
from changeledger.reconcile.forms import differs

# An update or a delete found other values than were last known.
CELLS_DIFFER: Final = "cells_differ"
# An update or a delete of a row that is not there.
ROW_WAS_GONE: Final = "row_was_gone"
# An insert of a row that is there.
ROW_WAS_THERE: Final = "row_was_there"


def effect_before(in_order: WindowSpec) -> Column:
    """What `linked` wants as `last`: the effect before on the same key, NULL where there is none."""
    return F.lag(F.struct("image", "gaps", "deleted", "change_id")).over(in_order)


def linked(effects: DataFrame, contract: Contract) -> DataFrame:
    """`effects` of `history`, their gaps filled, with `break`: `change.BREAK_TYPE`, NULL where there is none.

    `last` is `effect_before` of each. What has a `break` keeps it: it was judged when it was written.
    """
    operation, deleted, last = F.col("operation"), F.col("deleted"), F.col("last")
    there = last.isNotNull() & ~last["deleted"]
    moved_here = (operation == change.UPDATE) & ~deleted & F.col("previous_key").isNotNull()
    begins = (operation == change.INSERT) | moved_here
    goes_on = operation.isin(change.UPDATE, change.DELETE) & ~begins
    # A delete shows the row that it ends as its image.
    found = {
        "found": F.when(deleted, F.col("image")).otherwise(F.col("before")),
        "found_gaps": F.when(deleted, F.col("gaps")).otherwise(F.col("before_gaps")),
    }
    compared = goes_on & there & F.col("found").isNotNull()
    kind = (
        F.when(begins & there, F.lit(ROW_WAS_THERE))
        .when(goes_on & last["deleted"], F.lit(ROW_WAS_GONE))
        .when(F.size("different") > 0, F.lit(CELLS_DIFFER))
    )
    judged = F.struct(
        F.col("kind"), F.col("different").alias("columns"), last["change_id"].alias("previous_change_id")
    )
    return (
        effects.withColumns(found)
        .withColumn("different", F.when(compared, _different(contract)))
        .withColumn("kind", kind)
        .withColumn("break", F.coalesce("break", F.when(F.col("kind").isNotNull(), judged)))
        .drop("last", *found, "different", "kind")
    )


def _different(contract: Contract) -> Column:
    """array<string> of the columns outside the key that are known in `found` and in `last`, and differ."""
    columns = [c for c in contract.columns if not c.key_position]
    if not columns:
        return F.array().cast("array<string>")
    conditions = [differs(f"found.{quoted(c.name)}", f"last.image.{quoted(c.name)}", c) for c in columns]
    named = F.expr(images.names_where(conditions, [c.name for c in columns]))
    return images.without_gaps(named, F.col("found_gaps"), F.col("last")["gaps"])


def places(history: DataFrame, contract: Contract) -> DataFrame:
    """`(key, change_id)` of the rows of history whose change breaks the chain, the key as JSON."""
    broken = history.where(F.col("_break")["kind"].isNotNull())
    return broken.select(_key_of(contract), F.col("_change_id").alias("change_id"))


def _key_of(contract: Contract) -> Column:
    return F.to_json(F.struct(*(F.col(quoted(c.name)).alias(c.name) for c in contract.key))).alias("key")


def breaks(touched: DataFrame, ledger: DataFrame, contract: Contract) -> DataFrame:
    """The breaks among the rows of history that a run has written, as the columns of `change.BREAK_COLUMNS`.

    A break whose change before was not written with it is an old one, and left out.
    """
    found = touched.where(F.col("_break")["kind"].isNotNull()).select(
        _key_of(contract),
        F.col("_change_id").alias("change_id"),
        *(F.col("_break")[name].alias(name) for name in ("kind", "columns", "previous_change_id")),
    )
    image = F.struct(*(F.col(quoted(c.name)).alias(c.name) for c in contract.columns))
    before = touched.select(
        _key_of(contract),
        F.col("_change_id").alias("previous_change_id"),
        F.col("_sort_key").alias("previous_sort_key"),
        image.alias("known"),
        F.col("_gaps").alias("known_gaps"),
    )
    told = ledger.select(
        "change_id", "operation", "sort_key", "commit_lsn", "committed_at", "flags", "record",
        "before", "before_gaps",
    )  # fmt: skip
    names = F.expr(f"array({', '.join(map(literal, contract.names))})")
    # The breaks are few: they travel to the changes, not the changes to them.
    ids = F.broadcast(found.select("change_id").distinct())
    return (
        found.join(before, ["key", "previous_change_id"], "inner")
        .join(told.join(ids, "change_id", "left_semi"), "change_id", "inner")
        .withColumns(
            {
                "table": F.lit(contract.table),
                **{
                    side: F.when(
                        F.col(side).isNotNull(), F.map_from_arrays(names, texts(side, contract.columns))
                    )
                    for side in ("known", "before")
                },
            }
        )
        .select(*(F.col(name).cast(kind) for name, kind in change.BREAK_COLUMNS if name != "run_id"))
    )
