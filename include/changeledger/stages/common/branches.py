"""The branch on which a run builds one of its tables. A table that the run does not change has no branch.

A table may get a new column after rows are published. The value of that column in those rows is unknown, and
NULL would claim that it is known. The run that adds the column therefore marks it in those rows as not
captured, as if one window had read all changes.
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
    """Begins a fresh branch of the ledger, history or current table of the contract.

    `published`: the snapshot of main, or None if nothing is published or the run starts over. If it starts
    over, the branch is emptied, and still descends from main.
    `released`: the contract of the newest release. A column of main need not be released: whatever rewrites
    main writes all columns of the table.

    Returns the snapshot on the branch that has the published rows; None if `published` is None.
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
    log.info("%s: the published rows have no value of %s", table, ", ".join(names))
    return refs.snapshot_of(table, ctx.branch)


def untouched(tables: refs.Tables, published: Mapping[str, int]) -> dict[str, int]:
    """Returns the main snapshots of the tables that need no branch: no column was added since `published`.

    `tables`: tables for which the run has no rows. `published`: the snapshots of main that the run continues
    from.
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
