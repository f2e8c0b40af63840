"""The order of the effects on a key that one row leaves and another one takes in one statement.

A statement is atomic: all its rows leave their old keys, then they arrive at the new ones. A tool that writes
one update for each row writes them in the order of the rows. So where a row takes the key of another one, the
row that arrives can come before the row that leaves, and covers it until then. Nothing can stand between the
two: the key has no other change before the statement ends.

The same two effects are a chain where they are of two statements: a row arrives at a free key, and moves on.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from changeledger import change, images
from changeledger.change import quoted
from changeledger.contract import Contract
from changeledger.reconcile.forms import differs

# A row arrived at a key and left it in one transaction, and nothing says whether it is the same row.
ORDER_UNKNOWN: Final = "order_unknown"


def arrives() -> Column:
    """Does an effect of `history` put a row onto a key?"""
    moved = (F.col("operation") == change.UPDATE) & F.col("previous_key").isNotNull()
    return ((F.col("operation") == change.INSERT) | moved) & ~F.col("deleted")


def leaves() -> Column:
    """Does it take a row from a key to another one?"""
    return (F.col("operation") == change.UPDATE) & F.col("deleted")


def in_statement_order(touched: DataFrame, contract: Contract) -> DataFrame:
    """`touched` (effects of `history`), where a row that is covered leaves before the other one arrives: the
    two have exchanged their positions.

    It is covered where the key held a row. Where nothing was known of the key, the image of the row that
    leaves says whether it is the one that arrived. Where it says nothing, either, the order stays as it is,
    and the effect has the break `ORDER_UNKNOWN`.
    """
    in_order = Window.partitionBy("key").orderBy("sort_key", "delivery")
    image = F.struct("image", "gaps")
    same_after, same_before = (
        step("transaction").over(in_order) == F.col("transaction") for step in (F.lag, F.lead)
    )
    pairs = touched.withColumns({"arrives": arrives(), "leaves": leaves()}).withColumns(
        {
            "is_end": F.col("leaves") & _is_so(F.lag("arrives").over(in_order) & same_after),
            "is_begin": F.col("arrives") & _is_so(F.lead("leaves").over(in_order) & same_before),
            "arrived": F.lag(image).over(in_order),
        }
    )
    is_end, another = F.col("is_end"), F.col("another")
    # Swap or chain: the key is held afterwards where it was before.
    held = F.when(~is_end & ~F.col("is_begin"), ~F.col("deleted"))
    before_pair = in_order.rowsBetween(Window.unboundedPreceding, -2)
    judged = _compared(pairs, contract).withColumns(
        {
            "held": F.last(held, ignorenulls=True).over(before_pair),
            "another": F.max(is_end & F.col("differs")).over(in_order),
        }
    )
    swaps = judged.withColumn("swaps", is_end & F.coalesce("held", another))
    unknown = is_end & F.col("held").isNull() & ~another & ~F.col("is_comparable")
    place = F.struct("sort_key", "delivery")
    ordered = swaps.withColumns(
        {
            "place": F.when(F.col("swaps"), F.lag(place).over(in_order))
            .when(_is_so(F.lead("swaps").over(in_order)), F.lead(place).over(in_order))
            .otherwise(place),
            "break": F.coalesce("break", F.when(unknown, _unknown_order(F.lag("change_id").over(in_order)))),
        }
    )
    placed = {name: F.col("place")[name] for name in ("sort_key", "delivery")}
    return ordered.withColumns(placed).select(*touched.columns)


def _compared(pairs: DataFrame, contract: Contract) -> DataFrame:
    """With `is_comparable`: the row that leaves and the row that arrived share cells that are known; and
    `differs`: in one of them they are not the same."""
    columns = [c for c in contract.columns if not c.key_position]
    if not columns:
        return pairs.withColumns({"is_comparable": F.lit(False), "differs": F.lit(False)})
    names = [c.name for c in columns]
    conditions = [differs(f"image.{quoted(c.name)}", f"arrived.image.{quoted(c.name)}", c) for c in columns]
    gaps = (F.col("gaps"), F.col("arrived")["gaps"])
    has_both = F.col("is_end") & F.col("image").isNotNull()
    different = images.without_gaps(F.expr(images.names_where(conditions, names)), *gaps)
    known = images.without_gaps(F.array(*map(F.lit, names)), *gaps)
    return pairs.withColumns(
        {
            "is_comparable": has_both & (F.size(known) > 0),
            "differs": _is_so(F.when(has_both, F.size(different) > 0)),
        }
    )


def _unknown_order(previous_change_id: Column) -> Column:
    columns = F.lit(None).cast("array<string>").alias("columns")
    return F.struct(
        F.lit(ORDER_UNKNOWN).alias("kind"), columns, previous_change_id.alias("previous_change_id")
    )


def _is_so(condition: Column) -> Column:
    return F.coalesce(condition, F.lit(False))
