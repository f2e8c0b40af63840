"""Of effects that did not meet their like: which are out of order, which differ, which are missing or extra.

A lost effect moves the numbers of those behind it, and a doubled one too. So what is left is matched by what
it says, key by key, before the rest is taken for different, missing or extra.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from changeledger.reconcile.compare import (
    EQUAL,
    LEGITIMATE,
    ORDER,
    ORDER_UNKNOWN,
    PLACE,
    Columns,
    judged,
)

_KEY = ("key_1", "key_2")


def second_look(found: DataFrame, columns: Columns, is_ordered: bool = True) -> DataFrame:
    """The final verdicts of `found`, rows of `compare.matched` whose verdict is a fault.

    The same columns, with `other_place` for what stands at another place in the other feed. `is_ordered`: can
    the positions of the two feeds be compared? If not, no effect is out of order.
    """
    sides = {side: found.where(F.col(side).isNotNull()) for side in ("reference", "other")}
    content = _content(found, columns)
    told = {side: _by_content(rows, side, content) for side, rows in sides.items()}
    by_content = told["reference"].join(told["other"], [*_KEY, "content", "m"], "full_outer")
    both = by_content.where(F.col("reference").isNotNull() & F.col("other").isNotNull())
    rest = {
        side: _by_place(by_content.where(F.col(alone).isNull()), side)
        for side, alone in (("reference", "other"), ("other", "reference"))
    }
    paired = judged(rest["reference"].join(rest["other"], [*PLACE, "n"], "full_outer"), columns)
    met = _in_order(both, columns) if is_ordered else _without_order(both, columns)
    return met.unionByName(paired.drop("n").withColumn("other_place", F.lit(None).cast("binary")))


def _content(found: DataFrame, columns: Columns) -> str:
    """SQL text, with `{}` for a side: what an effect says, in the cells that are known in all of `found`."""
    numbers = range(len(columns.names))

    def unknown(number: int) -> Column:
        gaps = (
            f"({side}.after IS NOT NULL AND get({side}.after, {number}) IS NULL)"
            for side in ("reference", "other")
        )
        return F.expr(f"coalesce(bool_or({' OR '.join(gaps)}), false)").alias(str(number))

    seen = found.agg(*(unknown(n) for n in numbers)).collect()[0]
    cells = [f"get({{0}}.after, {n})" for n in numbers if not seen[str(n)]]
    return f"xxhash64({', '.join(['{0}.op', *cells])})"


def _by_content(rows: DataFrame, side: str, content: str) -> DataFrame:
    told = rows.select(
        *_KEY, F.expr(content.format(side)).alias("content"), F.col("place").alias(f"{side}_place"), side
    )
    order = Window.partitionBy(*_KEY, "content").orderBy(f"{side}_place", F.col(side)["sort_key"])
    return told.withColumn("m", F.row_number().over(order))


def _by_place(rows: DataFrame, side: str) -> DataFrame:
    told = rows.select(*_KEY, F.col(f"{side}_place").alias("place"), side)
    order = Window.partitionBy(*PLACE).orderBy(F.col(side)["sort_key"])
    return told.withColumn("n", F.row_number().over(order))


def _in_order(both: DataFrame, columns: Columns) -> DataFrame:
    """Effects that say the same: out of order at another place, or in another sequence at theirs."""
    moved = F.col("reference_place") != F.col("other_place")

    def rank(side: str) -> Column:
        at_place = Window.partitionBy("reference_place", "other_place", *_KEY)
        return F.row_number().over(at_place.orderBy(F.col(side)["sort_key"]))

    told = judged(both.withColumns({"rank": rank("reference"), "other_rank": rank("other")}), columns)
    out_of_order = moved | (F.col("rank") != F.col("other_rank"))
    empty = {"class": F.lit(None).cast("string"), "columns": F.lit(None).cast("array<int>")}
    return told.select(
        F.col("reference_place").alias("place"),
        *_KEY,
        "reference",
        "other",
        F.when(out_of_order, F.lit(ORDER)).otherwise(F.col("verdict")).alias("verdict"),
        *(F.when(out_of_order, value).otherwise(F.col(name)).alias(name) for name, value in empty.items()),
        F.when(moved, F.col("other_place")).alias("other_place"),
    )


def _without_order(both: DataFrame, columns: Columns) -> DataFrame:
    """Effects that say the same, of feeds whose positions have nothing in common."""
    rows = judged(both.withColumn("place", F.col("reference_place")), columns)
    is_equal = F.col("verdict") == EQUAL
    return rows.select(
        *PLACE,
        "reference",
        "other",
        F.when(is_equal, F.lit(LEGITIMATE)).otherwise(F.col("verdict")).alias("verdict"),
        F.when(is_equal, F.lit(ORDER_UNKNOWN)).otherwise(F.col("class")).alias("class"),
        "columns",
        F.lit(None).cast("binary").alias("other_place"),
    )
