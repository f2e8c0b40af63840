"""Rows that a feed's own topic tells again: a snapshot taken anew, or an incremental one, behind the changes.

Such a row is what its key was in the source at its place in the stream; so it must equal the version of the
key just before it. Where it does not, the feed had lost or spoilt a change. The row itself has mended what is
published.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from changeledger import change
from changeledger.change import literal, quoted
from changeledger.contract import Column, Contract
from changeledger.reconcile.drift import CELLS
from changeledger.reconcile.findings import text_of
from changeledger.reconcile.forms import form_of
from changeledger.reconcile.proof import DIFFERS, EQUAL, MISSING

_VERSION: Final = "struct<change_id:string,is_deleted:boolean>"


def judged(history: DataFrame, ledger: DataFrame, contract: Contract, runs: Sequence[str]) -> DataFrame:
    """The rows that these runs have brought and that have a version of their key before them.

    They come from the ledger: a row that shows what is known begins no version.

    `key` (JSON), `verdict` (`equal`, `differs`, or `missing`: the key was deleted), `cells` that differ, and
    `change_id` of the version before.
    """
    keys = F.struct(*(quoted(c.name) for c in contract.key))
    brought = (F.col("operation") == change.SNAPSHOT) & F.col("run_id").isin(list(runs))
    rows = ledger.where(brought).select(
        F.col("key").alias("key_there"),
        F.struct(*(F.col("after")[name].alias(name) for name in contract.names)).alias("image"),
        F.col("after_gaps").alias("image_gaps"),
        "sort_key",
        F.lit(None).cast(_VERSION).alias("version"),
    )
    versions = history.withColumn("key_there", keys).join(
        rows.select("key_there").distinct(), "key_there", "left_semi"
    )
    image = F.struct(*(F.col(quoted(name)).alias(name) for name in contract.names))
    known = versions.select(
        "key_there",
        image.alias("image"),
        F.col("_gaps").alias("image_gaps"),
        F.col("_sort_key").alias("sort_key"),
        F.struct(F.col("_change_id").alias("change_id"), F.col("_is_deleted").alias("is_deleted")).alias(
            "version"
        ),
    )
    # A row that begins a version comes before it.
    in_order = Window.partitionBy("key_there").orderBy("sort_key", F.col("version").isNotNull())
    earlier = in_order.rowsBetween(Window.unboundedPreceding, -1)
    version = F.when(
        F.col("version").isNotNull(),
        F.struct("image", "image_gaps", *(F.col("version")[n].alias(n) for n in ("change_id", "is_deleted"))),
    )
    told = rows.unionByName(known).withColumn("before", F.last(version, ignorenulls=True).over(earlier))
    behind = told.where(F.col("version").isNull() & F.col("before").isNotNull())
    cells = behind.withColumn("cells", F.expr(_different(contract)))
    verdict = (
        F.when(F.col("before")["is_deleted"], F.lit(MISSING))
        .when(F.size("cells") > 0, F.lit(DIFFERS))
        .otherwise(F.lit(EQUAL))
    )
    return cells.select(
        F.to_json("key_there").alias("key"),
        verdict.alias("verdict"),
        F.when(verdict == DIFFERS, F.col("cells")).alias("cells"),
        F.col("before")["change_id"].alias("change_id"),
    )


def _different(contract: Contract) -> str:
    """SQL text of the cells that both know and that differ."""
    cells = ", ".join(_cell(column) for column in contract.columns)
    return f"CAST(array_compact(array({cells})) AS {CELLS})"


def _cell(column: Column) -> str:
    form, name = form_of(column, column).value, quoted(column.name)
    one, other = form.format(f"image.{name}"), form.format(f"before.image.{name}")
    gaps = (f"coalesce(map_contains_key({image}_gaps, {literal(column.name)}), false)"
            for image in ("image", "before.image"))  # fmt: skip
    texts = (f"coalesce({text_of(image, column)}, 'NULL')" for image in ("image", "before.image"))
    source, published = texts
    told = f"named_struct('name', {literal(column.name)}, 'source', {source}, 'published', {published})"
    return f"CASE WHEN NOT ({' OR '.join(gaps)}) AND NOT ({one} <=> {other}) THEN {told} END"
