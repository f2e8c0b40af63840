"""The image chain's breaks among what a run has written into histories, in the feed's table of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import functions as F

from changeledger.kernels.arrow import table_schema
from changeledger.kernels.display import keys_as_json
from changeledger.kernels.rows import Rows, count, together
from changeledger.lake import catalog, iceberg, writes
from changeledger.model import change
from changeledger.model.contract import Contract
from changeledger.reconcile import image_chain
from changeledger.reconcile.buckets import BREAKS
from changeledger.stages.common.context import StageContext

_SCHEMA = table_schema(change.BREAK_COLUMNS)


class Rebuilt(NamedTuple):
    """Keys (`key`) whose history was built again, from that sort key on or all of it: `buckets.outputs`."""

    keys: pa.Table
    since: bytes | None
    outputs: Mapping[str, Rows]


class Breaks(NamedTuple):
    """Of one table: those of the history that goes on, their number, and those of what was built again."""

    contract: Contract
    continued: Rows
    number: int
    rebuilt: Sequence[Rebuilt]


def write_breaks(ctx: StageContext, tables: Sequence[Breaks]) -> None:
    """One that was found before keeps the run that found it; one that is none any more goes."""
    continued = [of_table.continued for of_table in tables if of_table.number]
    rebuilt = [again.outputs[BREAKS] for of_table in tables for again in of_table.rebuilt]
    is_known = catalog.exists(ctx.lake.image_chain_breaks)
    if not is_known:
        if not continued and not (rebuilt and count(together(rebuilt))):
            return
        iceberg.create(ctx.spark, ctx.lake.image_chain_breaks, change.BREAK_COLUMNS)
    iceberg.fresh_branch(ctx.spark, ctx.lake.image_chain_breaks, ctx.branch)
    if ctx.starts_over:
        iceberg.empty(ctx.spark, ctx.lake.image_chain_breaks, ctx.branch)
    elif is_known:
        rebuilt = [_in_place(ctx, of.contract, again) for of in tables for again in of.rebuilt]
    if continued or rebuilt:
        rows = together([*continued, *rebuilt])
        writes.append(rows, ctx.lake.image_chain_breaks, ctx.branch, change.BREAK_COLUMNS)


def _in_place(ctx: StageContext, contract: Contract, rebuilt: Rebuilt) -> Rows:
    """The breaks of histories that were built again; those that were there are gone from the branch."""
    cells = rebuilt.keys.column("key").combine_chunks().flatten()
    texts = keys_as_json({c.name: cell for c, cell in zip(contract.key, cells, strict=True)})
    keys = pa.table({"key": pa.array(texts, pa.string())})
    breaks = iceberg.read(ctx.spark, ctx.lake.image_chain_breaks)
    published = breaks.where(F.col("table") == contract.table)
    if rebuilt.since is not None:
        published = published.where(F.col("sort_key") >= F.lit(rebuilt.since))
    known = published.join(F.broadcast(ctx.workers.given(keys).frame), "key", "left_semi").select(
        "key", "change_id", "window_id"
    )
    runs = {(row["key"], row["change_id"]): row["window_id"] for row in known.collect()}
    if runs:
        rows = ctx.workers.given(keys).frame.withColumn("table", F.lit(contract.table))
        same = "t.`table` = s.`table` AND t.key = s.key"
        if rebuilt.since is not None:
            same += f" AND t.sort_key >= X'{rebuilt.since.hex()}'"
        iceberg.delete(rows, ctx.lake.image_chain_breaks, ctx.branch, same)
    return rebuilt.outputs[BREAKS].through(partial(image_chain.first_found, runs), _SCHEMA)
