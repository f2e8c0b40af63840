"""The tables that a run will write: their newest columns, a branch of what normalize writes, comments."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from changeledger.kernels.arrow import history_schema, ledger_schema, table_schema
from changeledger.lake import catalog, comments, iceberg, new_tables, refs
from changeledger.lake.parallel import parallel_map
from changeledger.model import change
from changeledger.model.comments import comments as comments_of
from changeledger.model.contract import Contract
from changeledger.model.table_names import TableNames
from changeledger.stages.common import branches
from changeledger.stages.common.context import StageContext

# By name: whose table it is, and its columns.
_Wanted = Mapping[str, tuple[Contract, iceberg.Columns]]


class Prepared(NamedTuple):
    # The tables whose columns stay as they are.
    unchanged: refs.Tables
    # Ledgers that the run leaves alone: where main is.
    untouched: Mapping[str, int]


def prepare(
    ctx: StageContext,
    contracts: Mapping[str, Contract],
    with_records: Collection[str],
    released: Mapping[str, Contract],
) -> Prepared:
    """Tables with the columns of these contracts; what normalize writes gets a branch as main is now.

    `with_records`: the source tables of which the run has some; `released`: contracts of the newest release.
    """
    tables = _wanted(ctx, contracts)
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
        for table, (_, columns) in tables.items()
        if table in known and iceberg.has_columns(known[table], columns)
    }
    quiet = {ctx.names[table].changes for table in contracts if table not in with_records}
    untouched = branches.untouched({name: unchanged[name] for name in quiet & unchanged.keys()}, published)
    others = _narrowed(ctx, tables, [table for table in tables if table in known and table not in unchanged])

    def prepare_table(table: str) -> None:
        contract, columns = tables[table]
        if table in others:
            iceberg.widen(ctx.spark, table, columns)
        elif table not in unchanged:
            _create(table, ctx.names[contract.table], contract)
        if table == ctx.names[contract.table].changes and table not in untouched:
            branches.begin(ctx, table, contract, published.get(table), released.get(contract.table))

    parallel_map(prepare_table, tables)
    return Prepared(unchanged, untouched)


def _prepare_of_feed(ctx: StageContext, table: str, columns: iceberg.Columns, known: refs.Tables) -> None:
    if table not in known:
        new_tables.create(table, table_schema(columns))
    elif not iceberg.has_columns(known[table], columns):
        iceberg.widen(ctx.spark, table, columns)
    iceberg.fresh_branch(ctx.spark, table, ctx.branch)


def _create(table: str, names: TableNames, contract: Contract) -> None:
    if table == names.changes:
        new_tables.create(table, ledger_schema(contract))
    elif table == names.history:
        new_tables.create(table, history_schema(contract), change.HISTORY_PARTITIONS)
    else:
        new_tables.create(table, table_schema(change.current_columns(contract)))


def _wanted(ctx: StageContext, contracts: Mapping[str, Contract]) -> _Wanted:
    tables: dict[str, tuple[Contract, iceberg.Columns]] = {}
    for contract in contracts.values():
        names = ctx.names[contract.table]
        tables[names.changes] = contract, change.ledger_columns(contract)
        tables[names.history] = contract, change.history_columns(contract)
        tables[names.current] = contract, change.current_columns(contract)
    return tables


def _narrowed(ctx: StageContext, tables: _Wanted, known: Sequence[str]) -> set[str]:
    """The tables without columns that no release has. Returns those that are still there."""
    if not any(parallel_map(lambda table: iceberg.narrow(ctx.spark, table, tables[table][1]), known)):
        return set(known)
    # Their snapshots hold columns that are gone now.
    ctx.control.windows.forget_stages_of_others(ctx.feed.feed, ctx.window)
    return set(catalog.existing(known))


def describe(ctx: StageContext, contracts: Iterable[Contract], loaded: refs.Tables) -> None:
    """Write comments into the catalog: where the tables of these contracts, which are as in the source, come
    from. `loaded`: those that are known."""
    feed = ctx.feed
    tables = [
        (table, comments_of(kind, contract, feed.database, feed.feed, feed.dialect))
        for contract in contracts
        for kind, table in ctx.names[contract.table]._asdict().items()
    ]
    parallel_map(lambda said: comments.write(*said, loaded.get(said[0])), tables)
