"""Writes breaks of image chains that a run has found into the feed's table of breaks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import pyarrow as pa

from changeledger.kernels.arrow import table_schema
from changeledger.kernels.display import keys_as_json
from changeledger.kernels.hashed import by
from changeledger.kernels.rows import Rows, count, together
from changeledger.kernels.touched import Among, Touched
from changeledger.lake import catalog, iceberg, new_tables, scans, writes
from changeledger.model.contract import Contract
from changeledger.reconcile import image_chain
from changeledger.reconcile.image_chain import first_found
from changeledger.stages.common.context import StageContext

# Columns that tell a break from others, with Spark's types, and those by which it is known again.
_PLACE = (("table", "string"), ("key", "string"), ("change_id", "string"))
_KNOWN = table_schema((*_PLACE, ("sort_key", "binary"), ("window_id", "string")))


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
    gone: list[writes.Keys] = []
    if ctx.starts_over:
        iceberg.empty(ctx.spark, ctx.lake.image_chain_breaks, ctx.branch)
    elif is_known and rebuilt:
        known = _known(ctx, tables)
        rebuilt = _with_first_runs(tables, known)
        places = known.select([name for name, _ in _PLACE])
        gone = [writes.Keys(ctx.workers.given(places), _PLACE, places)]
    if continued or rebuilt:
        rows = together([*continued, *rebuilt])
        change = writes.TableChange(ctx.lake.image_chain_breaks, ctx.branch, rows, gone)
        writes.apply(ctx.workers, [change])


def _known(ctx: StageContext, tables: Sequence[Breaks]) -> pa.Table:
    """Returns the published breaks of the histories that were rebuilt, in the columns `_KNOWN`.

    Handles all tables at once: late changes often come to many tables together, such as after a reset.
    """
    late = _since(tables)
    histories = zip(*late, strict=True)
    keys = pa.RecordBatch.from_arrays([*map(pa.array, histories)], ["table", "key"])
    touched = Touched.of_keys(keys)
    among = Among(by("table", "key"), touched.hashes)
    breaks, near = ctx.lake.image_chain_breaks, scans.are_near(touched)
    known = scans.scanned(ctx.workers, breaks, near, _KNOWN, among=among).collected()
    is_late = [
        (row["table"], row["key"]) in late and row["sort_key"] >= late[row["table"], row["key"]]
        for row in known.to_pylist()
    ]
    return known.filter(pa.array(is_late, pa.bool_()))


def _with_first_runs(tables: Sequence[Breaks], known: pa.Table) -> list[Rows]:
    """Returns the breaks of rebuilt histories. Those that are `known` keep the run that found them."""
    runs: dict[str, dict[tuple[str, str], str]] = {}
    for row in known.to_pylist():
        runs.setdefault(row["table"], {})[row["key"], row["change_id"]] = row["window_id"]
    return [
        again.breaks.through(partial(first_found, runs.get(of_table.contract.table, {})), image_chain.BREAKS)
        for of_table in tables
        for again in of_table.rebuilt
    ]


def _since(tables: Sequence[Breaks]) -> dict[tuple[str, str], bytes]:
    """Returns by table and key since which sort key the key's history was rebuilt (b"" for all of it).

    A key that was rebuilt twice counts with all of its history.
    """
    return {
        (of_table.contract.table, key): again.since or b""
        for of_table in tables
        for again in of_table.rebuilt
        for key in _as_json(of_table.contract, again)
    }


def _as_json(contract: Contract, rebuilt: Rebuilt) -> list[str]:
    cells = rebuilt.keys.column("key").combine_chunks().flatten()
    return keys_as_json({c.name: cell for c, cell in zip(contract.key, cells, strict=True)})
