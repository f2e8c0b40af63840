"""The image chain's breaks among what a run has written into histories, in the feed's table of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import functions as F

from changeledger.kernels.arrow import table_schema
from changeledger.kernels.display import keys_as_json
from changeledger.kernels.rows import Rows, count, together
from changeledger.lake import catalog, iceberg, new_tables, writes
from changeledger.model import change
from changeledger.model.change import literal
from changeledger.model.contract import Contract
from changeledger.reconcile import image_chain
from changeledger.stages.common.context import StageContext

_SCHEMA = table_schema(change.BREAK_COLUMNS)
_LATE = pa.schema([("table", pa.string()), ("key", pa.string()), ("since", pa.binary())])


class Rebuilt(NamedTuple):
    """Keys (`key`) whose history was built again, from that sort key on or all of it: what breaks the image
    chain, and the files of history and of current rows."""

    keys: pa.Table
    since: bytes | None
    breaks: Rows
    files: Sequence[pa.Table]


class Breaks(NamedTuple):
    """Of one table: those of the history that goes on, their number, and those of what was built again."""

    contract: Contract
    continued: Rows
    number: int
    rebuilt: Sequence[Rebuilt]


def write_breaks(ctx: StageContext, tables: Sequence[Breaks]) -> None:
    """One that was found before keeps the run that found it; one that is none any more goes."""
    continued = [of_table.continued for of_table in tables if of_table.number]
    rebuilt = [again.breaks for of_table in tables for again in of_table.rebuilt]
    is_known = catalog.exists(ctx.lake.image_chain_breaks)
    if not is_known:
        if not continued and not (rebuilt and count(together(rebuilt))):
            return
        new_tables.create(ctx.lake.image_chain_breaks, _SCHEMA)
    iceberg.fresh_branch(ctx.spark, ctx.lake.image_chain_breaks, ctx.branch)
    if ctx.starts_over:
        iceberg.empty(ctx.spark, ctx.lake.image_chain_breaks, ctx.branch)
    elif is_known and rebuilt:
        rebuilt = _in_place(ctx, tables)
    if continued or rebuilt:
        rows = together([*continued, *rebuilt])
        writes.append(rows, ctx.lake.image_chain_breaks, ctx.branch)


def _in_place(ctx: StageContext, tables: Sequence[Breaks]) -> list[Rows]:
    """The breaks of histories that were built again; those that were there are gone from the branch.

    Of all tables at once: late changes come to many of them together, such as after a reset.
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
        again.breaks.through(partial(image_chain.first_found, runs.get(of_table.contract.table, {})), _SCHEMA)
        for of_table in tables
        for again in of_table.rebuilt
    ]


def _late_keys(tables: Sequence[Breaks]) -> pa.Table:
    """Each key whose history was built again, and from where on; one that was built twice: all of it."""
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
