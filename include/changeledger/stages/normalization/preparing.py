"""Prepares the tables that a run writes: their columns, the branches of normalize, their comments."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from changeledger.kernels.arrow import history_schema, ledger_schema, table_schema
from changeledger.lake import catalog, comments, iceberg, new_tables, refs
from changeledger.lake.parallel import parallel_map
from changeledger.model import change
from changeledger.model.comments import comments as comments_of
from changeledger.model.contract import Contract
from changeledger.stages.common import branches
from changeledger.stages.common.context import StageContext


class _Wanted(NamedTuple):
    """A table as the run needs it. `schema` and `partitions` are used if it is created."""

    contract: Contract
    columns: iceberg.Columns
    schema: pa.Schema
    partitions: Mapping[str, str] = new_tables.UNPARTITIONED


class Prepared(NamedTuple):
    # Tables whose columns do not change.
    unchanged: refs.Tables
    # Main snapshots of ledgers that the run does not change.
    untouched: Mapping[str, int]


def prepare(
    ctx: StageContext,
    contracts: Mapping[str, Contract],
    with_records: Collection[str],
    released: Mapping[str, Contract],
) -> Prepared:
    """Creates or alters tables to the columns of these contracts. Begins the branches of normalize at main.

    `with_records`: source tables for which the run has records. `released`: contracts of the newest release.
    """
    tables = {name: wanted for of in contracts.values() for name, wanted in _wanted(ctx, of)}
    of_feed = {
        ctx.lake.dispositions: change.DISPOSITION_COLUMNS,
        ctx.lake.quarantine: change.QUARANTINE_COLUMNS,
    }
    known = catalog.look([*of_feed, *tables])
    for table, columns in of_feed.items():
        _prepare_of_feed(ctx, table, columns, known)
    published = {} if ctx.starts_over else refs.heads_in(known, refs.MAIN)
    unchanged = {
        table: known[table]
        for table, wanted in tables.items()
        if table in known and iceberg.has_columns(known[table], wanted.columns)
    }
    quiet = {ctx.names[table].changes for table in contracts if table not in with_records}
    untouched = branches.untouched({name: unchanged[name] for name in quiet & unchanged.keys()}, published)
    others = _narrowed(ctx, tables, [table for table in tables if table in known and table not in unchanged])

    def prepare_table(table: str) -> None:
        wanted = tables[table]
        source_table = wanted.contract.table
        if table in others:
            iceberg.widen(ctx.spark, table, wanted.columns)
        elif table not in unchanged:
            new_tables.create(table, wanted.schema, wanted.partitions)
        if table == ctx.names[source_table].changes and table not in untouched:
            branches.begin(ctx, table, wanted.contract, published.get(table), released.get(source_table))

    parallel_map(prepare_table, tables)
    return Prepared(unchanged, untouched)


def _prepare_of_feed(ctx: StageContext, table: str, columns: iceberg.Columns, known: refs.Tables) -> None:
    if table not in known:
        new_tables.create(table, table_schema(columns))
    elif not iceberg.has_columns(known[table], columns):
        iceberg.widen(ctx.spark, table, columns)
    iceberg.fresh_branch(ctx.spark, table, ctx.branch)


def _wanted(ctx: StageContext, contract: Contract) -> Iterator[tuple[str, _Wanted]]:
    """Yields the three tables of a contract with their names."""
    names, history = ctx.names[contract.table], change.history_columns(contract)
    current = change.current_columns(contract)
    yield names.changes, _Wanted(contract, change.ledger_columns(contract), ledger_schema(contract))
    yield names.history, _Wanted(contract, history, history_schema(contract), change.HISTORY_PARTITIONS)
    yield names.current, _Wanted(contract, current, table_schema(current))


def _narrowed(ctx: StageContext, tables: Mapping[str, _Wanted], known: Sequence[str]) -> set[str]:
    """Removes columns that no release has from the `known` tables. Returns those that still exist."""
    if not any(parallel_map(lambda table: iceberg.narrow(ctx.spark, table, tables[table].columns), known)):
        return set(known)
    # Snapshots built by other windows have columns that are gone now.
    ctx.control.windows.forget_stages_of_others(ctx.feed.feed, ctx.window)
    return set(catalog.existing(known))


def describe(ctx: StageContext, contracts: Iterable[Contract], loaded: refs.Tables) -> None:
    """Writes comments into the catalog that say where tables and columns come from.

    `contracts`: with the source's columns. `loaded`: tables that are loaded already.
    """
    feed = ctx.feed
    tables = [
        (table, comments_of(kind, contract, feed.database, feed.feed, feed.dialect))
        for contract in contracts
        for kind, table in ctx.names[contract.table]._asdict().items()
    ]
    parallel_map(lambda said: comments.write(*said, loaded.get(said[0])), tables)
