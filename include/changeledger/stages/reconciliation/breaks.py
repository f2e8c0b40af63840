"""Writes breaks of image chains that a run has found into the feed's table of breaks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import functions as F

from changeledger.kernels.display import keys_as_json
from changeledger.kernels.rows import Rows, count, together
from changeledger.lake import catalog, iceberg, new_tables, writes
from changeledger.model.change import literal
from changeledger.model.contract import Contract
from changeledger.reconcile import image_chain
from changeledger.reconcile.image_chain import first_found
from changeledger.stages.common.context import StageContext

_LATE = pa.schema([("table", pa.string()), ("key", pa.string()), ("since", pa.binary())])


class Rebuilt(NamedTuple):
    """The result of rebuilding the history of late keys.

    `keys`: the keys, in a column `key`. `since`: the sort key from which their history was rebuilt, or None
    for all of it. `breaks`: breaks of the image chain. `files`: of history and of current rows.
    """

    keys: pa.Table
    since: bytes | None
    breaks: Rows
    files: Sequence[pa.Table]


class Breaks(NamedTuple):
    """Breaks of one table: those of continued histories, their number, and those of rebuilt histories."""

    contract: Contract
    continued: Rows
    number: int
    rebuilt: Sequence[Rebuilt]


def write_breaks(ctx: StageContext, tables: Sequence[Breaks]) -> None:
    """Writes the breaks to the branch. Deletes resolved ones; known ones keep the run that found them."""
    continued = [of_table.continued for of_table in tables if of_table.number]
    rebuilt = [again.breaks for of_table in tables for again in of_table.rebuilt]
    is_known = catalog.exists(ctx.lake.image_chain_breaks)
    if not is_known:
        if not continued and not (rebuilt and count(together(rebuilt))):
            return
        new_tables.create(ctx.lake.image_chain_breaks, image_chain.BREAKS)
    iceberg.fresh_branch(ctx.spark, ctx.lake.image_chain_breaks, ctx.branch)
    if ctx.starts_over:
        iceberg.empty(ctx.spark, ctx.lake.image_chain_breaks, ctx.branch)
    elif is_known and rebuilt:
        rebuilt = _in_place(ctx, tables)
    if continued or rebuilt:
        rows = together([*continued, *rebuilt])
        writes.append(rows, ctx.lake.image_chain_breaks, ctx.branch)


def _in_place(ctx: StageContext, tables: Sequence[Breaks]) -> list[Rows]:
    """Returns the breaks of rebuilt histories, and deletes earlier breaks of these histories from the branch.

    Handles all tables at once: late changes often come to many tables together, such as after a reset.
    """
    late = ctx.workers.given(_late_keys(tables)).frame
    published = iceberg.read(ctx.spark, ctx.lake.image_chain_breaks).alias("t")
    same = "t.`table` = s.`table` AND t.key = s.key AND t.sort_key >= s.since"
    known = published.join(F.broadcast(late.alias("s")), F.expr(same), "left_semi")
    runs: dict[str, dict[tuple[str, str], str]] = {}
    for row in known.select("table", "key", "change_id", "window_id").collect():
        runs.setdefault(row["table"], {})[row["key"], row["change_id"]] = row["window_id"]
    if runs:
        near = ", ".join(map(literal, sorted(runs)))
        iceberg.delete(late, ctx.lake.image_chain_breaks, ctx.branch, f"{same} AND t.`table` IN ({near})")
    return [
        again.breaks.through(partial(first_found, runs.get(of_table.contract.table, {})), image_chain.BREAKS)
        for of_table in tables
        for again in of_table.rebuilt
    ]


def _late_keys(tables: Sequence[Breaks]) -> pa.Table:
    """Returns each key whose history was rebuilt, and since which sort key (b"" for all of it).

    A key that was rebuilt twice counts with all of its history.
    """
    since = {
        (of_table.contract.table, key): again.since or b""
        for of_table in tables
        for again in of_table.rebuilt
        for key in _as_json(of_table.contract, again)
    }
    columns = [*zip(*since, strict=True), since.values()]
    return pa.table(
        [pa.array([*cells], kind) for cells, kind in zip(columns, _LATE.types, strict=True)], _LATE
    )


def _as_json(contract: Contract, rebuilt: Rebuilt) -> list[str]:
    cells = rebuilt.keys.column("key").combine_chunks().flatten()
    return keys_as_json({c.name: cell for c, cell in zip(contract.key, cells, strict=True)})
