"""The branch on which a run builds one of its tables. A table that it leaves as it is published has none.

A column may come when rows are published already, and nobody knows what those rows hold in it: NULL would
say that somebody has. The run that begins it marks it there as not captured, as it would have been had all
windows been one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from changeledger.lake import iceberg, refs
from changeledger.model import change
from changeledger.model.change import literal
from changeledger.model.contract import Contract
from changeledger.stages.common.context import StageContext, log


def begin(
    ctx: StageContext, table: str, contract: Contract, published: int | None, released: Contract | None
) -> int | None:
    """A fresh branch of the ledger, the history or the current rows of the contract's table.

    `published`: the snapshot that main is at; None if nothing is published, or all is built anew: then the
    branch is empty, and still stands on main. `released`: the contract of the newest release. That main has a
    column does not say that a release has it: what writes main again does so with all columns of the table.

    Returns the snapshot of the rows that are published, as the branch has them.
    """
    loaded = iceberg.fresh_branch(ctx.spark, table, ctx.branch)
    if ctx.starts_over:
        iceberg.empty(ctx.spark, table, ctx.branch)
    if published is None:
        return None
    added = {path[-1] for path in refs.added_since(loaded, published)}
    known = contract.names if released is None else released.published.names
    names = [name for name in contract.names if name in added or name not in known]
    if not names:
        return published
    is_ledger = table == ctx.names[contract.table].changes
    gaps = (
        {f"{side}_unknown_columns": side for side in ("before", "after")}
        if is_ledger
        else {"_unknown_columns": None}
    )
    cells = {column: _with_gaps(column, names, image) for column, image in gaps.items()}
    iceberg.update(ctx.spark, table, ctx.branch, cells)
    log.info("%s: the rows that are published have no value of %s", table, ", ".join(names))
    return refs.snapshot_of(table, ctx.branch)


def untouched(tables: refs.Tables, published: Mapping[str, int]) -> dict[str, int]:
    """Of tables for which the run has no rows: where main is of those that it leaves as they are published.

    `published`: the snapshots of main that it goes on from.
    """
    return {
        name: published[name]
        for name, table in tables.items()
        if name in published and not refs.added_since(table, published[name])
    }


def _with_gaps(gaps: str, names: Sequence[str], image: str | None) -> str:
    pairs = ", ".join(literal(word) for name in names for word in (name, change.NOT_CAPTURED))
    more = f"map_concat(coalesce({gaps}, map()), map({pairs}))"
    return more if image is None else f"CASE WHEN {image} IS NOT NULL THEN {more} END"
